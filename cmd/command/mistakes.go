package command

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/cmd/command/comingfrom"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// checkUsage makes cmd and its subcommands end with exitUsage if the command line is wrong, and say how it is written. args are the
// arguments of the process.
func checkUsage(cmd *cobra.Command, args []string) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return withCode(exitUsage, flagMistake(cmd, args, err))
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, a []string) error {
			err := check(cmd, a)
			if err != nil && !cmd.HasSubCommands() {
				err = fmt.Errorf("%s; usage: %s", countMistake(err, a), strings.TrimSuffix(cmd.UseLine(), " [flags]"))
			}
			if err == nil {
				err = together(cmd.ValidateFlagGroups()) // cobra itself would do that later, and give the error no code
			}
			return withCode(exitUsage, err)
		}
	}
	for _, c := range cmd.Commands() {
		checkUsage(c, args)
	}
}

// allSet matches what cobra says of flags that exclude each other.
var allSet = pattern.Later(`; \[([^\]]*)\] were all set$`)

// together says in plain words what cobra says of flags that exclude each other.
func together(err error) error {
	if err == nil {
		return nil
	}
	if set := allSet().FindStringSubmatch(err.Error()); set != nil {
		return fmt.Errorf("--%s exclude each other: keep one", strings.ReplaceAll(set[1], " ", " and --"))
	}
	return err
}

// counted matches what cobra says of a wrong number of arguments.
var counted = pattern.Later(`^(?:accepts|requires) (at least |at most |between \d+ and )?(\d+) arg\(s\), (?:only )?received (\d+)$`)

// countMistake says in plain words what cobra says of the number of arguments.
func countMistake(err error, args []string) string {
	if strings.HasPrefix(err.Error(), "unknown command") { // so says cobra.NoArgs
		return fmt.Sprintf("takes no argument such as %q", args[0])
	}
	parts := counted().FindStringSubmatch(err.Error())
	if parts == nil {
		return err.Error()
	}
	takes := "takes " + parts[1] + parts[2] + " argument"
	if parts[2] != "1" || strings.HasPrefix(parts[1], "between") {
		takes += "s"
	}
	if parts[3] == "0" {
		return takes + ", and none is given"
	}
	if parts[3] == "1" {
		return takes + ", and 1 is given"
	}
	return takes + ", and " + parts[3] + " are given"
}

// flagMistake says what is wrong with a flag of cmd, and what to write.
func flagMistake(cmd *cobra.Command, args []string, err error) error {
	_, args, _ = cmd.Root().Find(args) // without the names of the commands
	if before := cmd.Flags().Args(); len(before) > 0 && !looksLikeURL(before[0]) {
		// Flags behind the name of a program are its own.
		at := max(0, slices.Index(args, before[0]))
		switch {
		case takesCommand(cmd) && cmd.Flags().ArgsLenAtDash() < 0:
			return missingDash(cmd, args[:at], args[at:])
		case cmd == cmd.Root() && (isProgram(before[0]) || toolIn(before) != ""):
			return twoWays(cmd, args[at:])
		}
	}
	see := "see " + cmd.CommandPath() + " --help"
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s: %s; %s", wrong.GetFlag().Name, valueMistake(wrong), see)
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return fmt.Errorf("%w; %s", err, see)
	}
	name, given := unknown.GetSpecifiedName(), "--"+unknown.GetSpecifiedName()
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		name = letters
		for _, arg := range args { // letters are what follows those that are flags: -elp of -help
			if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, letters) {
				name = arg[1:]
			}
		}
		given = "-" + name
	}
	what := "unknown flag " + given
	if do := meantFlag(cmd, name, given, args); do != "" {
		return fmt.Errorf("%s; %s", what, do)
	}
	if takesCommand(cmd) {
		return fmt.Errorf("%s; if it is one of the server's command: %s -- COMMAND [ARG...]; %s", what, cmd.CommandPath(), see)
	}
	return fmt.Errorf("%s; %s", what, see)
}

// valueMistake says what a value of a flag should be.
func valueMistake(wrong *pflag.InvalidValueError) string {
	switch wrong.GetFlag().Value.Type() {
	case "int", "uint64":
		digits, below := strings.CutPrefix(wrong.GetValue(), "-")
		switch whole := digits != "" && strings.Trim(digits, "0123456789") == ""; {
		case whole && below && wrong.GetFlag().Name == "call":
			return "calls are numbered from 1"
		case whole && !below:
			return fmt.Sprintf("%q is too large", digits)
		}
		return fmt.Sprintf("%q is not a whole number", wrong.GetValue())
	case "uint16":
		return fmt.Sprintf("%q is not a port from 0 to 65535", wrong.GetValue())
	case "bool":
		return fmt.Sprintf("%q is not true or false; the flag alone means true", wrong.GetValue())
	}
	return wrong.Unwrap().Error()
}

// takesCommand reports whether a command takes the server's command behind --.
func takesCommand(cmd *cobra.Command) bool { return strings.Contains(cmd.Use, "-- COMMAND") }

//go:embed others.yaml
var othersFile []byte

// others are flags that other programs have, and what dragoman has in their place.
var others = sync.OnceValue(func() (of struct {
	Flags               map[string][2]string
	Arguments, Settings map[string]string
}) {
	_ = yaml.Unmarshal(othersFile, &of) // a test reads it
	return of
})

// meantFlag says what to write in place of an unknown flag; "" if that is not known. given is the flag with its dashes.
func meantFlag(cmd *cobra.Command, name, given string, args []string) string {
	has := func(flag string) bool { return cmd.Flags().Lookup(flag) != nil }
	plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	plain, _, _ = strings.Cut(plain, "=") // of -listen=x
	if has(plain) {
		return "did you mean --" + plain + "?"
	}
	if cmd.Name() == "serve" || cmd.Name() == "stdio" {
		if do := comingfrom.Meant(given, cmd.Name()); do != "" && !has(others().Flags[name][0]) {
			return do
		}
	}
	instead := others().Flags[name]
	if has(instead[0]) {
		value := instead[1]
		if port := valueOf("--port", args); number().MatchString(port) {
			value = strings.Replace(value, "HOST:8808", "HOST:"+port+" in the place of --port", 1)
		}
		return strings.TrimSpace("write --" + instead[0] + " " + valued(value, valueOf(given, args)))
	}
	if strings.HasSuffix(cmd.Use, " [KEY=VALUE...]") && !strings.HasPrefix(name, "-") {
		if of := commandsWith(cmd.Parent(), plain); len(of) == 0 && near(cmd, plain) == "" {
			return "a parameter of the operation is written without dashes: " + plain + "=VALUE"
		}
	}
	if o, ok := others().Arguments[name]; ok && takesCommand(cmd) {
		return "it needs no flag: " + cmd.CommandPath() + " " + o
	}
	if flag := near(cmd, plain); flag != "" {
		return "did you mean --" + flag + "?"
	}
	if of := commandsWith(cmd.Root(), plain); len(of) > 0 {
		return "it is a flag of " + strings.Join(of, ", ")
	}
	if do := settingNamed(plain); do != "" && has("config") {
		return do
	}
	if of := commandsWith(cmd.Root(), instead[0]); len(of) > 0 && takesCommand(cmd) {
		return "--" + instead[0] + " is a flag of " + strings.Join(of, ", ")
	}
	return ""
}

// near returns the flag of cmd that is like name, or begins or ends with it; "" if none is.
func near(cmd *cobra.Command, name string) string {
	var own []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			own = append(own, f.Name)
		}
	})
	for _, is := range []func(f string) bool{
		func(f string) bool { return strings.HasPrefix(f, name) },
		func(f string) bool { return f == setting.Nearest(name, own) },
		func(f string) bool { return strings.HasSuffix(f, "-"+name) },
	} {
		if at := slices.IndexFunc(own, is); at >= 0 && len(name) > 2 {
			return own[at]
		}
	}
	return ""
}

// settingNamed says how the setting is set for which name is a flag that does not exist; "" if there is none, or several.
func settingNamed(name string) string {
	key := strings.NewReplacer("-", "_", ".", "_").Replace(name)
	exact := others().Settings[name]
	var ending []string
	c := config.Default()
	_ = c.EachSetting(func(path string, _ reflect.Value) error {
		if plain := strings.ReplaceAll(path, ".", "_"); exact == "" && plain == key {
			exact = path
		}
		if strings.HasSuffix(path, "."+key) {
			ending = append(ending, path)
		}
		return nil
	})
	switch {
	case exact == "" && len(ending) == 1:
		exact = ending[0]
	case exact == "":
		return ""
	}
	return "it is the setting " + exact + ": in the file of --config, or the variable " + config.EnvPrefix + strings.ToUpper(strings.ReplaceAll(exact, ".", "_"))
}

// valueOf returns the value that an unknown flag was given; "" if it had none.
func valueOf(given string, args []string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, given+"="); ok {
			return value
		}
		if arg == given && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			return args[i+1]
		}
	}
	return ""
}

// variableName and hostname match values that are no secrets, as number does.
var (
	variableName = pattern.Later(`^[A-Za-z_][A-Za-z0-9_]*$`)
	hostname     = pattern.Later(`^[A-Za-z0-9.-]+$`)
)

// valued puts a value into the place that the example of another flag has for it.
func valued(example, value string) string {
	isAddress := strings.Contains(example, "HOST:") || strings.Contains(example, ":PORT")
	if host, port, err := net.SplitHostPort(value); isAddress && err == nil && number().MatchString(port) && (hostname().MatchString(host) || isIPv6(host)) {
		return value
	}
	switch {
	case isIPv6(strings.Trim(value, "[]")):
		return strings.Replace(example, "HOST", "["+strings.Trim(value, "[]")+"]", 1)
	case number().MatchString(value):
		return strings.Replace(example, "PORT", value, 1)
	case hostname().MatchString(value):
		return strings.Replace(example, "HOST", value, 1)
	}
	return example
}

func isIPv6(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Is6()
}

// commandsWith returns the commands that have a flag of this name.
func commandsWith(root *cobra.Command, flag string) (paths []string) {
	for _, c := range root.Commands() {
		if c.Flags().Lookup(flag) != nil {
			paths = append(paths, c.CommandPath())
		}
	}
	return paths
}
