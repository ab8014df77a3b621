# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_dynctl_global_optspecs
    string join \n o/output= control= timeout= no-color h/help V/version
end

function __fish_dynctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_dynctl_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_dynctl_using_subcommand
    set -l cmd (__fish_dynctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c dynctl -n "__fish_dynctl_needs_command" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_needs_command" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_needs_command" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_needs_command" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_needs_command" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_needs_command" -s V -l version -d 'Print version'
complete -c dynctl -n "__fish_dynctl_needs_command" -f -a "status" -d 'State of the daemon, its models, workers and sessions'
complete -c dynctl -n "__fish_dynctl_needs_command" -f -a "session" -d 'Agent sessions'
complete -c dynctl -n "__fish_dynctl_needs_command" -f -a "worker" -d 'The devices that compute'
complete -c dynctl -n "__fish_dynctl_needs_command" -f -a "cache" -d 'The KV cache'
complete -c dynctl -n "__fish_dynctl_needs_command" -f -a "doctor" -d 'Look for what is wrong'
complete -c dynctl -n "__fish_dynctl_needs_command" -f -a "version" -d 'Versions of dynctl and of the daemon'
complete -c dynctl -n "__fish_dynctl_needs_command" -f -a "completion" -d 'Print a completion script, e.g. `source <(dynctl completion bash)`'
complete -c dynctl -n "__fish_dynctl_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand status" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand status" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand status" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand status" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand status" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -f -a "ls" -d 'List sessions, the latest active first'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -f -a "list" -d 'List sessions, the latest active first'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -f -a "tree" -d 'Show sessions below their parents'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -f -a "show" -d 'Show one session and its latest turns'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and not __fish_seen_subcommand_from ls list tree show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from ls" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from ls" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from ls" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from ls" -l active -d 'Only those with a request in flight or a tool running'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from ls" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from list" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from list" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from list" -l active -d 'Only those with a request in flight or a tool running'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from list" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from tree" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from tree" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from tree" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from tree" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from tree" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from show" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from show" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from show" -l misses -d 'Why each turn\'s prompt missed the cache, where, and what that cost'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from show" -l show-text -d 'With the line of text where the prompts part, if the daemon keeps it (sessions.show_text)'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from show" -l hints -d 'What became of each hint that came with a turn'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from show" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "ls" -d 'List sessions, the latest active first'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "tree" -d 'Show sessions below their parents'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one session and its latest turns'
complete -c dynctl -n "__fish_dynctl_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and not __fish_seen_subcommand_from ls list show help" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and not __fish_seen_subcommand_from ls list show help" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and not __fish_seen_subcommand_from ls list show help" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and not __fish_seen_subcommand_from ls list show help" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and not __fish_seen_subcommand_from ls list show help" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and not __fish_seen_subcommand_from ls list show help" -f -a "ls" -d 'List workers'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and not __fish_seen_subcommand_from ls list show help" -f -a "list" -d 'List workers'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and not __fish_seen_subcommand_from ls list show help" -f -a "show" -d 'Show what a worker computes with, and what it has computed'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and not __fish_seen_subcommand_from ls list show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from ls" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from ls" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from ls" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from ls" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from list" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from list" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from list" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from show" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from show" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from show" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from help" -f -a "ls" -d 'List workers'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show what a worker computes with, and what it has computed'
complete -c dynctl -n "__fish_dynctl_using_subcommand worker; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and not __fish_seen_subcommand_from stats help" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and not __fish_seen_subcommand_from stats help" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and not __fish_seen_subcommand_from stats help" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and not __fish_seen_subcommand_from stats help" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and not __fish_seen_subcommand_from stats help" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and not __fish_seen_subcommand_from stats help" -f -a "stats" -d 'Fill and hit rate of each worker\'s pool'
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and not __fish_seen_subcommand_from stats help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and __fish_seen_subcommand_from stats" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and __fish_seen_subcommand_from stats" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and __fish_seen_subcommand_from stats" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and __fish_seen_subcommand_from stats" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and __fish_seen_subcommand_from stats" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and __fish_seen_subcommand_from help" -f -a "stats" -d 'Fill and hit rate of each worker\'s pool'
complete -c dynctl -n "__fish_dynctl_using_subcommand cache; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and not __fish_seen_subcommand_from prefix help" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and not __fish_seen_subcommand_from prefix help" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and not __fish_seen_subcommand_from prefix help" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and not __fish_seen_subcommand_from prefix help" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and not __fish_seen_subcommand_from prefix help" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and not __fish_seen_subcommand_from prefix help" -f -a "prefix" -d 'How stable a harness\'s prompt is, from saved request bodies; needs no daemon'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and not __fish_seen_subcommand_from prefix help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and __fish_seen_subcommand_from prefix" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and __fish_seen_subcommand_from prefix" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and __fish_seen_subcommand_from prefix" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and __fish_seen_subcommand_from prefix" -l siblings -d 'Each body begins a session: compare all with the first, up to the conversation'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and __fish_seen_subcommand_from prefix" -l show-text -d 'Show the text around each difference'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and __fish_seen_subcommand_from prefix" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and __fish_seen_subcommand_from prefix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and __fish_seen_subcommand_from help" -f -a "prefix" -d 'How stable a harness\'s prompt is, from saved request bodies; needs no daemon'
complete -c dynctl -n "__fish_dynctl_using_subcommand doctor; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand version" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand version" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand version" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand version" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand version" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand completion" -s o -l output -d 'Output format' -r -f -a "table\t''
json\t''"
complete -c dynctl -n "__fish_dynctl_using_subcommand completion" -l control -d 'Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock, /run/dyn/control.sock and your own directory under the temporary one]' -r -F
complete -c dynctl -n "__fish_dynctl_using_subcommand completion" -l timeout -d 'How long to wait for the daemon' -r
complete -c dynctl -n "__fish_dynctl_using_subcommand completion" -l no-color -d 'Plain text, also on a terminal'
complete -c dynctl -n "__fish_dynctl_using_subcommand completion" -s h -l help -d 'Print help'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and not __fish_seen_subcommand_from status session worker cache doctor version completion help" -f -a "status" -d 'State of the daemon, its models, workers and sessions'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and not __fish_seen_subcommand_from status session worker cache doctor version completion help" -f -a "session" -d 'Agent sessions'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and not __fish_seen_subcommand_from status session worker cache doctor version completion help" -f -a "worker" -d 'The devices that compute'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and not __fish_seen_subcommand_from status session worker cache doctor version completion help" -f -a "cache" -d 'The KV cache'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and not __fish_seen_subcommand_from status session worker cache doctor version completion help" -f -a "doctor" -d 'Look for what is wrong'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and not __fish_seen_subcommand_from status session worker cache doctor version completion help" -f -a "version" -d 'Versions of dynctl and of the daemon'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and not __fish_seen_subcommand_from status session worker cache doctor version completion help" -f -a "completion" -d 'Print a completion script, e.g. `source <(dynctl completion bash)`'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and not __fish_seen_subcommand_from status session worker cache doctor version completion help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "ls" -d 'List sessions, the latest active first'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "tree" -d 'Show sessions below their parents'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "show" -d 'Show one session and its latest turns'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and __fish_seen_subcommand_from worker" -f -a "ls" -d 'List workers'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and __fish_seen_subcommand_from worker" -f -a "show" -d 'Show what a worker computes with, and what it has computed'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and __fish_seen_subcommand_from cache" -f -a "stats" -d 'Fill and hit rate of each worker\'s pool'
complete -c dynctl -n "__fish_dynctl_using_subcommand help; and __fish_seen_subcommand_from doctor" -f -a "prefix" -d 'How stable a harness\'s prompt is, from saved request bodies; needs no daemon'
