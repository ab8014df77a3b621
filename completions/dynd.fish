complete -c dynd -l config -d 'Config file (TOML). Default: /etc/dyn/dynd.toml, then dyn/dynd.toml under the user\'s config directory, if there' -r -F
complete -c dynd -l model -d 'Model to serve: a .gguf file, a safetensors directory, or builtin:tiny' -r
complete -c dynd -l max-context -d 'Longest prompt and answer together, in tokens. Default: what the model is made for' -r
complete -c dynd -l listen -d 'HTTP listen address. Port 0 picks a free port, written to STATE_DIR/address' -r
complete -c dynd -l control -d 'Unix socket for dynctl' -r -F
complete -c dynd -l state-dir -d 'Durable state' -r -F
complete -c dynd -l cache-dir -d 'Disposable caches: removing this directory costs time, nothing else' -r -F
complete -c dynd -l insecure-no-auth -d 'Listen beyond loopback although there are no keys and no TLS: anyone who can reach the port can use the model, see the metrics, and tell from timing what others have asked'
complete -c dynd -l check-config -d 'Check the configuration and exit'
complete -c dynd -s h -l help -d 'Print help (see more with \'--help\')'
complete -c dynd -s V -l version -d 'Print version'
