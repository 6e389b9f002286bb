package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ringcache/ringcache/internal/config"
)

// keyFlag is the flag of one configuration key. It keeps the text: parsing is
// internal/config's, so that all faults come together.
type keyFlag struct {
	key   config.Key
	given []string
}

func (f *keyFlag) String() string     { return f.key.Default }
func (f *keyFlag) Set(s string) error { f.given = append(f.given, s); return nil }

// Type is the placeholder in the help text.
func (f *keyFlag) Type() string {
	switch f.key.Kind {
	case "one of":
		return "name"
	case "size or per cent":
		return "size"
	}
	return f.key.Kind
}

// configFlags are the flags of every key, and --config.
type configFlags struct {
	file string
	keys []*keyFlag
}

// addConfigFlags adds the flags to a command.
func addConfigFlags(cmd *cobra.Command) *configFlags {
	f := &configFlags{}
	cmd.Flags().SortFlags = false // the table's order goes by subject
	cmd.Flags().StringVar(&f.file, "config", "", "YAML file, see docs/configuration.md (or "+config.FileVariable+")")
	for _, k := range config.Keys() {
		flag := &keyFlag{key: k}
		f.keys = append(f.keys, flag)
		cmd.Flags().Var(flag, k.Name, k.Help())
		if k.Kind == "switch" {
			cmd.Flags().Lookup(k.Name).NoOptDefVal = "on"
		}
	}
	return f
}

// load reads file, environment and flags.
func (f *configFlags) load() (*config.Config, error) {
	in := config.Input{File: f.file, Environ: os.Environ()}
	if in.File == "" {
		in.File = os.Getenv(config.FileVariable)
	}
	for _, flag := range f.keys {
		for _, text := range flag.given {
			in.Flags = append(in.Flags, config.Flag{Name: flag.key.Name, Value: text})
		}
	}
	return config.Load(in)
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show or check the configuration", Args: subcommandArgs, RunE: help}
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the effective values and where each came from",
		Long: `Print every configuration key with its effective value and its origin: a flag, a
variable, a line of the file, or the default. Secrets are not printed.`,
		Example: `  ringcache config show
  RINGCACHE_MAX_MEMORY=1gb ringcache config show --config ring.yaml -o json`,
	}
	flags := addConfigFlags(show)
	output := addOutput(show)
	show.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.load()
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), c.Entries(), func(w io.Writer) {
			fmt.Fprintln(w, "KEY\tVALUE\tORIGIN")
			for _, e := range c.Entries() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", e.Key, e.Value, e.Origin)
			}
		})
	}
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a file by itself",
		Long: `Check one YAML file by itself: of the environment only the secrets count
(RINGCACHE_CLUSTER_SECRET, RINGCACHE_PASSWORD), which are best kept out of files.
All faults are reported at once with line and column; the exit code is then 2.`,
		Example: `  ringcache config check ring.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := config.Load(config.Input{File: args[0], Environ: secretsOf(os.Environ())}); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", args[0])
			return err
		},
	}
	cmd.AddCommand(show, check)
	return cmd
}

// secretsOf keeps the variables that hold secrets.
func secretsOf(environ []string) []string {
	return slices.DeleteFunc(environ, func(pair string) bool {
		return !strings.HasPrefix(pair, "RINGCACHE_CLUSTER_SECRET=") && !strings.HasPrefix(pair, "RINGCACHE_PASSWORD=")
	})
}

// output is the -o flag: a table for people or JSON for programs.
type output struct{ format string }

func addOutput(cmd *cobra.Command) *output {
	o := &output{format: "table"}
	cmd.Flags().VarP(o, "output", "o", "table or json")
	return o
}

func (o *output) String() string { return o.format }
func (o *output) Type() string   { return "format" }
func (o *output) Set(s string) error {
	if s != "table" && s != "json" {
		return fmt.Errorf("%q is no format: table or json", s)
	}
	o.format = s
	return nil
}

// print writes v as JSON, or what table writes in aligned columns.
func (o *output) print(w io.Writer, v any, table func(io.Writer)) error {
	if o.format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	table(tw)
	return tw.Flush()
}
