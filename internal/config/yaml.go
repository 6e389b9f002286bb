package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFile bounds the configuration file; a real one has a few dozen lines.
const maxFile = 1 << 20

// given is one value as a source gave it.
type given struct {
	key   *Key
	text  string
	where string // fault position
	from  Origin
}

// readYAML turns the text of a file into values. The file is one flat mapping
// of known keys; everything else is a fault with its line and column.
func readYAML(name string, text []byte) ([]given, Faults) {
	var faults Faults
	at := func(tk *token.Token) string {
		if tk == nil || tk.Position == nil {
			return name
		}
		return fmt.Sprintf("%s:%d:%d", name, tk.Position.Line, tk.Position.Column)
	}
	if len(text) > maxFile {
		return nil, Faults{{Where: name, What: fmt.Sprintf("the file has %d bytes, limit %d", len(text), maxFile), Do: "is it the right file?"}}
	}
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		fault := Fault{Where: name, What: err.Error(), Do: "write one `key: value` a line"}
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			fault.Where, fault.What = at(syntax.GetToken()), "no valid YAML: "+syntax.GetMessage()
		}
		return nil, Faults{fault}
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root != nil:
			return nil, Faults{{Where: at(doc.Body.GetToken()), What: "a second document", Do: "keep one document per file"}}
		default:
			root = doc.Body
		}
	}
	mapping, ok := root.(*ast.MappingNode)
	if root == nil {
		return nil, nil
	}
	if !ok {
		return nil, Faults{{Where: at(root.GetToken()), What: "the file is no mapping", Do: "write one `key: value` a line"}}
	}
	var values []given
	lines := map[string]int{}
	for _, pair := range mapping.Values {
		tk := pair.Key.GetToken()
		key := Lookup(tk.Value)
		if key == nil {
			faults = append(faults, Fault{Where: at(tk), Key: tk.Value, What: "unknown key",
				Do: didYouMean(tk.Value, keyNames(), "`ringcache config show` lists all keys")})
			continue
		}
		if first, twice := lines[key.Name]; twice {
			faults = append(faults, Fault{Where: at(tk), Key: key.Name, What: fmt.Sprintf("given twice, first in line %d", first), Do: "remove one"})
			continue
		}
		lines[key.Name] = tk.Position.Line
		text, valueAt, err := scalar(pair.Value, key)
		if valueAt == nil {
			valueAt = tk
		}
		if err != nil {
			faults = append(faults, fault(at(valueAt), key, err))
			continue
		}
		values = append(values, given{key, text, at(valueAt), Origin(fmt.Sprintf("%s:%d", name, valueAt.Position.Line))})
	}
	return values, faults
}

// scalar returns the text of a value and its place. A list key also takes a
// sequence, which becomes the form on one line. list is nil within one.
func scalar(n ast.Node, list *Key) (string, *token.Token, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, n.GetToken(), nil
	case *ast.LiteralNode:
		return strings.TrimSpace(n.Value.Value), n.GetToken(), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, n.GetToken(), nil
	case *ast.NullNode:
		return "", nil, bad("give one or remove the line", "has no value")
	case *ast.SequenceNode:
		if list == nil || !list.list {
			break
		}
		separator := ","
		if list.separator != "" {
			separator = list.separator
		}
		items := make([]string, 0, len(n.Values))
		for _, v := range n.Values {
			item, at, err := scalar(v, nil)
			if err != nil {
				return "", at, err
			}
			if strings.Contains(item, separator) {
				return "", at, bad("give each item its own line", "%q contains %q", item, separator)
			}
			items = append(items, item)
		}
		return strings.Join(items, separator), n.GetToken(), nil
	}
	return "", n.GetToken(), bad("write it on one line", "is not a single value")
}
