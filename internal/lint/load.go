package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// LoadSources reads every Go file of the main module below root: nested
// modules, testdata and hidden directories are left out.
func LoadSources(root string) ([]Source, error) {
	var out []Source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path == root {
				return nil
			}
			_, modErr := os.Stat(filepath.Join(path, "go.mod"))
			if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || modErr == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		out = append(out, Source{Path: filepath.ToSlash(rel), Text: text})
		return nil
	})
	return out, err
}

// LoadPackages asks the go tool for the packages of the module at root and
// completes their direct imports from sources, so that files of other
// platforms count too.
func LoadPackages(root string, sources []Source) ([]Package, error) {
	out, err := goTool(root, "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	if err != nil {
		return nil, err
	}
	var pkgs []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath                               string
			Imports, TestImports, XTestImports, Deps []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		pkg := Package{Path: p.ImportPath, Imports: p.Imports, Deps: p.Deps, TestImports: slices.Concat(p.TestImports, p.XTestImports)}
		for _, src := range sources {
			if dirOf(src.Path) == relative(p.ImportPath) && !strings.HasSuffix(src.Path, "_test.go") {
				if err := pkg.read(src); err != nil {
					return nil, err
				}
			}
		}
		pkgs = append(pkgs, pkg)
	}
	return pkgs, nil
}

// read adds the imports and the package comment of one file.
func (p *Package) read(src Source) error {
	file, err := parser.ParseFile(token.NewFileSet(), src.Path, src.Text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if path != "C" && !slices.Contains(p.Imports, path) {
			p.Imports = append(p.Imports, path)
		}
	}
	if file.Doc != nil {
		p.Doc += file.Doc.Text()
	}
	return nil
}

// LoadModules returns the modules that the go.mod in dir requires, or only the
// direct ones.
func LoadModules(dir string, onlyDirect bool) ([]string, error) {
	out, err := goTool(dir, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, err
	}
	var paths []string
	for _, r := range mod.Require {
		if !onlyDirect || !r.Indirect {
			paths = append(paths, r.Path)
		}
	}
	return paths, nil
}

// goTool runs the go command in dir and returns what it prints.
func goTool(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

func dirOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}
