package lint

import (
	"fmt"
	"slices"
	"strings"
)

// CheckFloors holds packages against the floors table: every package is in
// it, imports go downwards, and forbidden rooms are not even reached.
func CheckFloors(rooms []Room, pkgs []Package) []Fault {
	byPath := make(map[string]*Room, len(rooms))
	for i := range rooms {
		byPath[rooms[i].Path] = &rooms[i]
	}
	var faults []Fault
	for _, p := range pkgs {
		room, ok := byPath[relative(p.Path)]
		if !ok {
			faults = append(faults, Fault{p.Path, "floor", "is not in the floors table",
				"give it a row with a floor and a reason, or move it into an existing room"})
			continue
		}
		for _, imp := range p.Imports {
			if what := importFault(byPath, room, imp); what != "" {
				faults = append(faults, Fault{p.Path, "floor", what, room.Why})
			}
		}
		for _, dep := range p.Deps {
			if own(dep) && slices.Contains(room.Never, relative(dep)) && !slices.Contains(p.Imports, dep) {
				faults = append(faults, Fault{p.Path, "floor", "reaches " + relative(dep) + " through another room", room.Why})
			}
		}
	}
	return faults
}

// importFault says what is wrong with one direct import, or nothing.
func importFault(rooms map[string]*Room, from *Room, imp string) string {
	switch {
	case own(imp):
		to, ok := rooms[relative(imp)]
		switch {
		case !ok:
			return "imports " + relative(imp) + ", which is not in the floors table"
		case slices.Contains(from.Never, to.Path):
			return "imports " + name(to.Path) + ", which is forbidden to it"
		case slices.Contains(Support, to.Path) || slices.Contains(from.Same, to.Path):
			return ""
		case to.Floor >= from.Floor:
			return fmt.Sprintf("on floor %d imports %s on floor %d", from.Floor, name(to.Path), to.Floor)
		}
	case standard(imp):
		if slices.Contains(from.NoStd, imp) {
			return "imports " + imp
		}
	case !slices.ContainsFunc(from.Modules, func(m string) bool { return within(imp, m) }):
		return "imports " + imp + ", which is not among its modules"
	}
	return ""
}

// CheckShape holds the layout: one level below internal/, names that say what
// a package owns, and packages only where the house has doors.
func CheckShape(pkgs []Package) []Fault {
	var faults []Fault
	for _, p := range pkgs {
		rel := relative(p.Path)
		parts := strings.Split(rel, "/")
		last := parts[len(parts)-1]
		if parts[0] == "internal" && len(parts) > 2 {
			faults = append(faults, Fault{p.Path, "shape", "lies deeper than one level below internal/",
				"rooms within rooms hide who may import whom; make it files of its room or a room of its own"})
		}
		if slices.Contains(BadNames, last) {
			faults = append(faults, Fault{p.Path, "shape", "is called " + last,
				"the name does not say what the package owns, so it collects everything"})
		}
	}
	return faults
}

// CheckEmbedders holds what a program that imports a public package compiles.
func CheckEmbedders(embedders map[string][]string, pkgs []Package) []Fault {
	var faults []Fault
	for _, p := range pkgs {
		if !own(p.Path) {
			continue
		}
		for _, prefix := range embedders[relative(p.Path)] {
			for _, dep := range p.Deps {
				if within(dep, prefix) {
					faults = append(faults, Fault{p.Path, "embedder", "compiles " + dep,
						"who embeds a node or the client did not ask for a command line, a console or an exporter"})
				}
			}
		}
	}
	return faults
}

// CheckModules holds the main go.mod: nothing of Foreign, nothing that only a
// nested module (interop/, bench/, examples/) needs, and a written reason in
// adr for every module that the packages import themselves.
func CheckModules(required []string, nested map[string][]string, pkgs []Package, adr string) []Fault {
	imported := func(module string) bool {
		return slices.ContainsFunc(pkgs, func(p Package) bool {
			uses := func(imp string) bool { return within(imp, module) }
			return slices.ContainsFunc(p.Imports, uses) || slices.ContainsFunc(p.TestImports, uses)
		})
	}
	var faults []Fault
	for _, module := range required {
		for _, prefix := range Foreign {
			if within(module, prefix) {
				faults = append(faults, Fault{"go.mod", "modules", "requires " + module,
					"other clients and other caches belong to interop/ and bench/, so that no user downloads them"})
			}
		}
		used := imported(module)
		for dir, direct := range nested {
			if !used && slices.Contains(direct, module) {
				faults = append(faults, Fault{"go.mod", "modules", "requires " + module + ", which only " + dir + " uses",
					"run go mod tidy in both modules"})
			}
		}
		if used && !strings.Contains(adr, module) {
			faults = append(faults, Fault{"go.mod", "modules", "requires " + module + " without a reason",
				"every dependency has its line in docs/adr/0001-dependencies.md"})
		}
	}
	return faults
}

// own tells whether an import path belongs to the main module.
func own(path string) bool { return within(path, Module) }

// relative strips the module path; the root package becomes "".
func relative(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, Module), "/")
}

// name is a room's path for messages.
func name(rel string) string {
	if rel == "" {
		return "the root package"
	}
	return rel
}

// standard tells whether a path is of the standard library: its first element
// has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// within tells whether path is prefix or lies below it. A prefix that ends in
// a slash matches every path that it begins.
func within(path, prefix string) bool {
	if strings.HasSuffix(prefix, "/") {
		return strings.HasPrefix(path, prefix)
	}
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}
