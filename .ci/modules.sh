# The modules as the checks see them. Source it with the root of the repository as the working directory.

table=.ci/architecture/modules.txt

# All modules, each after the ones it needs. .ci/check-architecture reports a module whose folder is missing.
modules=()
while read -r name rest; do
    case $name in "" | "#"*) continue ;; esac
    if [ -d "Sources/$name" ]; then modules+=("$name"); fi
done < "$table"

# The modules that a module needs, separated by spaces.
needs() {
    awk -v module="$1" '$1 == module && $2 != "-" { gsub(",", " ", $2); print $2 }' "$table"
}

# Sets `sources` to the files of the given modules, in the same order on every machine.
collect() {
    local module file
    sources=()
    for module in "$@"; do
        while IFS= read -r file; do sources+=("$file"); done \
            < <(find "Sources/$module" -name '*.docc' -prune -o -name '*.swift' -print | LC_ALL=C sort)
    done
}

# Runs a command that may hang, for at most the given number of seconds.
limited() {
    local seconds=$1
    shift
    if command -v timeout > /dev/null; then timeout --kill-after=10 "$seconds" "$@"; else "$@"; fi
}
