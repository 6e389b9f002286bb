package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // commit, with + when the tree was changed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion is what the Go tool wrote into the binary.
func buildVersion() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	changed := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	if v.Revision != "" {
		v.Revision += changed
	}
	return v
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Example: "  ringcache version -o json", Args: cobra.NoArgs}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := buildVersion()
		return output.print(cmd.OutOrStdout(), v, func(w io.Writer) {
			fmt.Fprintf(w, "ringcache %s", v.Version)
			if v.Revision != "" {
				fmt.Fprintf(w, " (%s)", v.Revision)
			}
			fmt.Fprintf(w, ", %s, %s\n", v.Go, v.Platform)
		})
	}
	return cmd
}
