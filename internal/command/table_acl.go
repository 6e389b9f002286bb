package command

const (
	perUser  = "O(N) where N is the number of users"
	aclAdmin = Admin | NoScript | Loading | Stale
)

// aclCommands concern users and what they may do; the server executes them.
var aclCommands = []*Command{{
	ID: ACL, Name: "acl", Arity: -2, Group: "server", Since: "6.0.0",
	Summary: "Container of the commands about users and their rules.", Complexity: "Depends on subcommand.",
	Conn: true, Subs: aclSubs,
}}

var aclSubs = []*Command{
	{
		ID: ACLCat, Name: "cat", Arity: -2, Flags: NoScript | Loading | Stale, Group: "server", Since: "6.0.0",
		Summary: "Lists the categories, or the commands of one.", Complexity: "O(1)", Conn: true,
		Args: []Arg{arg("categoryname", "string").optional()},
	},
	{
		ID: ACLDelUser, Name: "deluser", Arity: -3, Flags: aclAdmin, Group: "server", Since: "6.0.0",
		Summary: "Deletes users and ends their connections.", Complexity: "O(N) where N is the number of connections", Conn: true,
		Args: []Arg{arg("username", "string").multiple()},
	},
	{
		ID: ACLDryRun, Name: "dryrun", Arity: -4, Flags: aclAdmin, Group: "server", Since: "7.0.0",
		Summary: "Tells whether a user may execute a command.", Complexity: "O(1)", Conn: true,
		Args: []Arg{arg("username", "string"), arg("command", "string"), arg("arg", "string").optional().multiple()},
	},
	{
		ID: ACLGenPass, Name: "genpass", Arity: -2, Flags: NoScript | Loading | Stale, Group: "server", Since: "6.0.0",
		Summary: "Makes a random password.", Complexity: "O(1)", Conn: true,
		Args: []Arg{arg("bits", "integer").optional()},
	},
	{
		ID: ACLGetUser, Name: "getuser", Arity: 3, Flags: aclAdmin, Group: "server", Since: "6.0.0",
		Summary: "Returns the rules of a user.", Complexity: "O(N) where N is the number of rules", Conn: true,
		Args: []Arg{arg("username", "string")},
	},
	{
		ID: ACLHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "server", Since: "6.0.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)", Conn: true,
	},
	{
		ID: ACLList, Name: "list", Arity: 2, Flags: aclAdmin, Group: "server", Since: "6.0.0",
		Summary: "Lists the users in the form of the file.", Complexity: perUser, Conn: true,
	},
	{
		ID: ACLLoad, Name: "load", Arity: 2, Flags: aclAdmin, Group: "server", Since: "6.0.0",
		Summary: "Reads the users from the file.", Complexity: perUser, Conn: true,
	},
	{
		ID: ACLLog, Name: "log", Arity: -2, Flags: aclAdmin, Group: "server", Since: "6.0.0",
		Summary: "Lists what was refused lately.", Complexity: "O(N) where N is the number of entries", Conn: true,
		Args: []Arg{oneOf("operation", arg("count", "integer"), word("reset")).optional()},
	},
	{
		ID: ACLSave, Name: "save", Arity: 2, Flags: aclAdmin, Group: "server", Since: "6.0.0",
		Summary: "Writes the users to the file.", Complexity: perUser, Conn: true,
	},
	{
		ID: ACLSetUser, Name: "setuser", Arity: -3, Flags: aclAdmin, Group: "server", Since: "6.0.0",
		Summary: "Creates a user, or changes its rules.", Complexity: "O(N) where N is the number of rules", Conn: true,
		Args: []Arg{arg("username", "string"), arg("rule", "string").optional().multiple()},
	},
	{
		ID: ACLUsers, Name: "users", Arity: 2, Flags: aclAdmin, Group: "server", Since: "6.0.0",
		Summary: "Lists the names of the users.", Complexity: perUser, Conn: true,
	},
	{
		ID: ACLWhoAmI, Name: "whoami", Arity: 2, Flags: NoScript | Loading | Stale, Group: "server", Since: "6.0.0",
		Summary: "Returns the user of this connection.", Complexity: "O(1)", Conn: true,
	},
}
