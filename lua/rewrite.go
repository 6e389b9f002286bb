package lua

import "github.com/yuin/gopher-lua/ast"

// The interpreter counts instructions, but one concatenation may double a
// string, so a few instructions could fill the memory. So every a..b of a
// script becomes a call of a function that counts bytes. It stands in a local
// variable whose name no script can write.
const concatName = "(concat)"

// bounded rewrites a chunk; it then takes the concatenation as its argument.
func bounded(chunk []ast.Stmt) []ast.Stmt {
	rewriteBlock(chunk)
	first := &ast.LocalAssignStmt{Names: []string{concatName}, Exprs: []ast.Expr{&ast.Comma3Expr{AdjustRet: true}}}
	return append([]ast.Stmt{first}, chunk...)
}

func rewriteBlock(block []ast.Stmt) {
	for _, s := range block {
		rewriteStmt(s)
	}
}

func rewriteStmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		rewriteAll(s.Lhs)
		rewriteAll(s.Rhs)
	case *ast.LocalAssignStmt:
		rewriteAll(s.Exprs)
	case *ast.FuncCallStmt:
		s.Expr = rewrite(s.Expr)
	case *ast.DoBlockStmt:
		rewriteBlock(s.Stmts)
	case *ast.WhileStmt:
		s.Condition = rewrite(s.Condition)
		rewriteBlock(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition = rewrite(s.Condition)
		rewriteBlock(s.Stmts)
	case *ast.IfStmt:
		s.Condition = rewrite(s.Condition)
		rewriteBlock(s.Then)
		rewriteBlock(s.Else)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step = rewrite(s.Init), rewrite(s.Limit), rewrite(s.Step)
		rewriteBlock(s.Stmts)
	case *ast.GenericForStmt:
		rewriteAll(s.Exprs)
		rewriteBlock(s.Stmts)
	case *ast.FuncDefStmt:
		s.Name.Func, s.Name.Receiver = rewrite(s.Name.Func), rewrite(s.Name.Receiver)
		rewriteBlock(s.Func.Stmts)
	case *ast.ReturnStmt:
		rewriteAll(s.Exprs)
	}
}

func rewriteAll(list []ast.Expr) {
	for i := range list {
		list[i] = rewrite(list[i])
	}
}

// rewrite changes the parts of an expression in place and returns what stands
// for it.
func rewrite(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.StringConcatOpExpr:
		call := &ast.FuncCallExpr{
			Func: &ast.IdentExpr{Value: concatName}, Args: operands(e), AdjustRet: true,
		}
		call.SetLine(e.Line())
		call.SetLastLine(e.LastLine())
		call.Func.SetLine(e.Line())
		call.Func.SetLastLine(e.LastLine())
		return call
	case *ast.AttrGetExpr:
		e.Object, e.Key = rewrite(e.Object), rewrite(e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			f.Key, f.Value = rewrite(f.Key), rewrite(f.Value)
		}
	case *ast.FuncCallExpr:
		e.Func, e.Receiver = rewrite(e.Func), rewrite(e.Receiver)
		rewriteAll(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = rewrite(e.Lhs), rewrite(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = rewrite(e.Lhs), rewrite(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = rewrite(e.Lhs), rewrite(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = rewrite(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = rewrite(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = rewrite(e.Expr)
	case *ast.FunctionExpr:
		rewriteBlock(e.Stmts)
	}
	return e
}

// operands flattens a..(b..c), the form that the parser gives a chain, so that
// a long chain costs one copy.
func operands(e *ast.StringConcatOpExpr) []ast.Expr {
	list := []ast.Expr{rewrite(e.Lhs)}
	rhs := e.Rhs
	for len(list) < 50 {
		next, ok := rhs.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		list = append(list, rewrite(next.Lhs))
		rhs = next.Rhs
	}
	return append(list, single(rewrite(rhs)))
}

// single keeps the last argument of a call to one value.
func single(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}
