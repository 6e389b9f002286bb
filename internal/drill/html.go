package drill

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
)

//go:embed report.html
var page string

// WriteHTML writes reports as one page that needs nothing else: tables and charts,
// in light or dark as the reader's system is.
func WriteHTML(w io.Writer, reports []*Report) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"about":   About,
		"percent": func(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) },
		"points":  Points,
		"took":    tookText,
		"hits": func(r *Report) template.HTML {
			return chart(r, " %", false, func(f Figures) float64 { return 100 * f.HitRatio })
		},
		"origin": func(r *Report) template.HTML {
			return chart(r, "/s", true, func(f Figures) float64 { return f.Origin })
		},
		"latency": func(r *Report) template.HTML { return chart(r, " ms", true, func(f Figures) float64 { return f.P99 }) },
		"failed": func(r *Report) template.HTML {
			return chart(r, "", true, func(f Figures) float64 { return float64(f.Errors()) })
		},
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, reports)
}

// Points writes by how much a hit ratio is above (+) or below (-) the control's, from a
// drop.
func Points(drop float64) string {
	if text := fmt.Sprintf("%+.2f", -drop); text != "-0.00" && text != "+0.00" {
		return text
	}
	return "0.00"
}

// tookText says how long changes took.
func tookText(took map[string]Seconds) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(took)) {
		s := took[what]
		parts = append(parts, fmt.Sprintf("%s %.2f s (%d, most %.2f s)", what, s.P50, s.Count, s.Max))
	}
	return strings.Join(parts, "; ")
}
