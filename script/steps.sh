# Steps that run side by side, each once those are done that it waits for. For the scripts beside it; needs bash 5.1.

declare -a STEPS=()
declare -A STEP_AFTER=() STEP_WORDS=() STEP_COMMAND=() STEP_STATE=() STEP_NUMBER=() STEP_BEGAN=() STEP_OF=()

# add_step NAME "NAMES THAT IT DEFERRED FOR" "words" FUNCTION: names that were not added are not waited for.
add_step() {
    STEPS+=("$1")
    STEP_AFTER[$1]=$2 STEP_WORDS[$1]=$3 STEP_COMMAND[$1]=$4 STEP_STATE[$1]=open STEP_NUMBER[$1]=${#STEPS[@]}
}

# run_steps DIRECTORY: run them all, each with a log in there. Where one fails the others are ended, and so is
# the script. Never call it where a failure is looked at (`||`, `if`), as bash then forgets `set -e` inside of it.
run_steps() {
    local logs=$1 name status finished
    mkdir -p "$logs"
    trap 'end_steps' EXIT
    trap 'say_again "interrupted"; exit 130' INT
    trap 'say_again "terminated"; exit 143' TERM HUP
    while true; do
        for name in "${STEPS[@]}"; do
            if [ "${STEP_STATE[$name]}" = open ] && may_begin "$name"; then begin_step "$name" "$logs/$name.log"; fi
        done
        [ ${#STEP_OF[@]} -gt 0 ] || break
        status=0
        wait -n -p finished "${!STEP_OF[@]}" || status=$?
        name=${STEP_OF[$finished]}
        unset "STEP_OF[$finished]"
        if [ $status != 0 ]; then
            printf '[%s/%s] failed: %s; the end of %s:\n' "${STEP_NUMBER[$name]}" ${#STEPS[@]} "${STEP_WORDS[$name]}" "$logs/$name.log" >&2
            tail -n 20 "$logs/$name.log" >&2
            say_again "it is not complete"
            exit 1
        fi
        STEP_STATE[$name]=done
        printf '[%s/%s] done in %s s: %s\n' "${STEP_NUMBER[$name]}" ${#STEPS[@]} $((SECONDS - STEP_BEGAN[$name])) "${STEP_WORDS[$name]}"
    done
    trap - EXIT INT TERM HUP
}

say_again() { printf '%s: %s; what is done is kept, so run it again\n' "${0##*/}" "$1" >&2; }

may_begin() {
    local before
    for before in ${STEP_AFTER[$1]}; do
        case ${STEP_STATE[$before]:-done} in done) ;; *) return 1 ;; esac
    done
}

begin_step() {
    printf '[%s/%s] %s\n' "${STEP_NUMBER[$1]}" ${#STEPS[@]} "${STEP_WORDS[$1]}"
    STEP_STATE[$1]=begun STEP_BEGAN[$1]=$SECONDS
    set -m # for a process group, so that all of it can be ended
    (
        trap - EXIT INT TERM HUP
        set -euo pipefail
        ${STEP_COMMAND[$1]}
    ) > "$2" 2>&1 < /dev/null &
    set +m
    STEP_OF[$!]=$1
}

# End what runs, and all that it has started; returns when that is gone.
end_steps() {
    local leader tries
    for leader in "${!STEP_OF[@]}"; do kill -TERM -- -"$leader" 2> /dev/null || true; done
    for leader in "${!STEP_OF[@]}"; do
        wait "$leader" 2> /dev/null || true
        for tries in {1..100}; do
            kill -0 -- -"$leader" 2> /dev/null || continue 2
            sleep 0.1
        done
        kill -KILL -- -"$leader" 2> /dev/null || true
    done
    STEP_OF=()
}
