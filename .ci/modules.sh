# The modules as the checks see them. To be sourced with the root of the repository as the working directory.

table=.ci/architecture/modules.txt

# All modules, each after those that it needs. One whose folder is missing is for .ci/check-architecture to report.
modules=()
while read -r name rest; do
    case $name in "" | "#"*) continue ;; esac
    if [ -d "Sources/$name" ]; then modules+=("$name"); fi
done < "$table"

# What a module is built with, as words.
needs() {
    awk -v module="$1" '$1 == module && $2 != "-" { gsub(",", " ", $2); print $2 }' "$table"
}

# Sets `sources` to the files of some modules, in an order that does not depend on the machine.
collect() {
    local module file
    sources=()
    for module in "$@"; do
        while IFS= read -r file; do sources+=("$file"); done \
            < <(find "Sources/$module" -name '*.docc' -prune -o -name '*.swift' -print | LC_ALL=C sort)
    done
}

# Runs a command that may hang, for so many seconds at most.
limited() {
    local seconds=$1
    shift
    if command -v timeout > /dev/null; then timeout --kill-after=10 "$seconds" "$@"; else "$@"; fi
}
