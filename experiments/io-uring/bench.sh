#!/bin/bash
# redis-benchmark, with the server's user and system ticks, run time in ns and context switches before and after in split.log.
for ((i = 1; i <= $#; i++)); do
    [ "${!i}" = -p ] && { j=$((i + 1)); port=${!j}; }
    [ "${!i}" = -t ] && { j=$((i + 1)); test=${!j}; }
    [ "${!i}" = -c ] && { j=$((i + 1)); clients=${!j}; }
    [ "${!i}" = -n ] && { j=$((i + 1)); requests=${!j}; }
done
pid=$(pgrep -f -- "--port $port( |\$)|:$port\$|:$port " | head -1)
snapshot() {
    local stat ticks run=0 voluntary=0 involuntary=0 name value task
    stat=$(</proc/$pid/stat); stat=${stat##*) }; read -ra ticks <<<"$stat"
    for task in /proc/$pid/task/*; do
        read -r value _ <$task/schedstat; run=$((run + value))
        while read -r name value; do
            [ "$name" = voluntary_ctxt_switches: ] && voluntary=$((voluntary + value))
            [ "$name" = nonvoluntary_ctxt_switches: ] && involuntary=$((involuntary + value))
        done <$task/status
    done
    echo "${ticks[11]} ${ticks[12]} $run $voluntary $involuntary"
}
before=$(snapshot)
redis-benchmark "$@"
echo "$(tr "\0" " " </proc/$pid/cmdline)| $port c$clients $test $requests $before $(snapshot)" >>/tmp/uring/split.log
