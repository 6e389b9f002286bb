package drill

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Size of a chart in its own units; the page scales it.
const (
	chartW, chartH                = 760, 220
	chartLeft, chartRight         = 56, 24
	chartTop, chartBottom         = 10, 26
	chartTicks                    = 4
	plotW, plotH          float64 = chartW - chartLeft - chartRight, chartH - chartTop - chartBottom
)

// chart draws one figure of both sides over time as SVG: no script, no resources.
func chart(r *Report, unit string, zero bool, figure func(Figures) float64) template.HTML {
	if len(r.Curve) == 0 {
		return ""
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range r.Curve {
		for _, f := range []Figures{p.Fault, p.Control} {
			if f.Requests > 0 {
				low, high = min(low, figure(f)), max(high, figure(f))
			}
		}
	}
	if math.IsInf(low, 0) {
		return ""
	}
	if zero {
		low = 0
	}
	low, high, step := scale(low, high)
	end := r.Curve[len(r.Curve)-1].To
	x := func(t float64) float64 { return chartLeft + plotW*t/end }
	y := func(v float64) float64 { return chartTop + plotH*(1-(v-low)/(high-low)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img">`, chartW, chartH)
	for v := low; v <= high+step/2; v += step {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="y" x="%d" y="%.1f">%.6g%s</text>`,
			chartLeft, chartW-chartRight, y(v), y(v), chartLeft-6, y(v)+4, math.Round(v*1e6)/1e6, unit)
	}
	_, _, tick := scale(0, end)
	for t := 0.0; t <= end; t += tick {
		fmt.Fprintf(&b, `<text class="x" x="%.1f" y="%d">%.6g s</text>`, x(t), chartH-8, math.Round(t*1e6)/1e6)
	}
	for _, e := range r.Events {
		fmt.Fprintf(&b, `<line class="event" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"><title>%.1f s: %s</title></line>`,
			x(e.At), x(e.At), chartTop, chartTop+plotH, e.At, html.EscapeString(e.What))
	}
	for _, line := range []struct {
		class string
		of    func(Pair) Figures
	}{{"control", func(p Pair) Figures { return p.Control }}, {"fault", func(p Pair) Figures { return p.Fault }}} {
		fmt.Fprintf(&b, `<polyline class="%s" points="`, line.class)
		for _, p := range r.Curve {
			if f := line.of(p); f.Requests > 0 {
				fmt.Fprintf(&b, "%.1f,%.1f ", x((p.From+p.To)/2), y(figure(f)))
			}
		}
		b.WriteString(`"/>`)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) // numbers, classes of this file and escaped texts only
}

// scale widens a range to round numbers with a round step.
func scale(low, high float64) (from, to, step float64) {
	if high-low < 1e-9 {
		low, high = low-0.5, high+0.5
	}
	step = math.Pow(10, math.Floor(math.Log10((high-low)/chartTicks)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*m) <= chartTicks+1 {
			step *= m
			break
		}
	}
	return math.Floor(low/step) * step, math.Ceil(high/step) * step, step
}
