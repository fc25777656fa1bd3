# Prints a word for each requirement of the given parts that is missing.
promtool=$1 home=$2 config=$3 manage=$4 grafana=$5
shift 5
for part; do
    case $part in
        rules) command -v "$promtool" > /dev/null || echo promtool ;;
        dashboards) [ -d "$grafana" ] || echo grafana ;;
    esac
    [ "$part" = dashboards ] || [ -d "$(dirname "$home")" ] || echo home
    [ "$part" = dashboards ] || [ "$manage" = False ] || [ -f "$config" ] || echo config
    [ "$part" = dashboards ] || grep -qF "$home/$part/" "$config" 2> /dev/null || echo "unread $part"
done
