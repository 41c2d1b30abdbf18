# The stages of a part: each a command with a limit of time, its output among the logs, its outcome in the part's JSON.
# Sourced by gpu_gate.sh, which sets part, out, device, seconds and bundle.

work=$(mktemp -d)
logs=$work/$part
mkdir "$logs"
trap 'rm -rf "$work"' EXIT
names=() records=()      # of stages: what they are called, and a JSON object each
running= child= since=0  # the stage under way, its process, when it began
now_ms=0                 # see look_at_clock
card= architecture= reason=

# Bash 5.2 can lose a signal that it traps while it reads or waits for a substitution of a command (it then complains of
# a matching parenthesis). So nothing here substitutes commands once a part has begun: functions set variables.

# quote TEXT: sets `quoted` to it as a JSON string.
quote() {
  local LC_ALL=C text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  quoted="\"${text//[[:cntrl:]]/ }\""
}
# Sets now_ms.
look_at_clock() { now_ms=$((${EPOCHREALTIME/[.,]/} / 1000)); }
# read_text FILE: sets `text` to what it holds, without the ends of lines behind it.
read_text() {
  IFS= read -r -d '' text <"$1"
  while [[ $text == *$'\n' ]]; do text=${text%$'\n'}; done
}
# read_last COUNT FILE: the same of its last lines.
read_last() {
  tail -n "$1" "$2" >"$work/last"
  read_text "$work/last"
}
# read_result FILE: sets `result` to the JSON that a stage has printed, among warnings maybe: the line that is an
# object, an array of them where there are several, all of it, or nothing. A last line without its end was cut off.
read_result() {
  local line text found=()
  result=
  while IFS= read -r line; do
    if [[ $line == "{"*"}" ]]; then found+=("$line"); fi
  done <"$1"
  case ${#found[@]} in
    0) read_text "$1" && [[ $text != "{"*"}" ]] || result=$text ;;
    1) result=${found[0]} ;;
    *)
      for line in "${found[@]}"; do result+=${result:+$',\n '}$line; done
      result="[$result]"
      ;;
  esac
}

# write_part STATE: PART.json and PART.tar.gz as of now, each replaced at once.
write_part() {
  local i date commit=unknown separator= dry_run=false TZ=UTC0
  [ ! -e "$bundle/share/commit" ] || commit=$(<"$bundle/share/commit")
  [ "$device" != cpu ] || dry_run=true
  printf -v date '%(%FT%TZ)T' -1
  {
    quote "$reason"
    printf '{\n"part": "%s", "state": "%s", "reason": %s, "dry_run": %s,\n' "$part" "$1" "$quoted" $dry_run
    quote "$card"
    printf '"card": %s, ' "$quoted"
    quote "$architecture"
    printf '"architecture": %s, "seconds": %s, "date": "%s", "commit": "%s",\n"stages": {' "$quoted" $SECONDS "$date" "$commit"
    for i in "${!names[@]}"; do
      quote "${names[i]}"
      printf '%s\n%s: %s' "$separator" "$quoted" "${records[i]}"
      separator=,
    done
    printf '\n}\n}\n'
  } >"$out/$part.json.new" && mv "$out/$part.json.new" "$out/$part.json"
  tar -C "$work" -czf "$out/$part.tar.gz.new" "$part" && mv "$out/$part.tar.gz.new" "$out/$part.tar.gz"
}
# record STATE STATUS MILLISECONDS: of the stage under way, which is the last of `names`.
record() {
  local result= text= json
  printf -v json '{"state": "%s", "status": %s, "seconds": %d.%03d' "$1" "$2" $(($3 / 1000)) $(($3 % 1000))
  if [ -s "$logs/$running.out" ]; then
    read_result "$logs/$running.out"
    read_last 1 "$logs/$running.out"
  fi
  if [ -n "$result" ]; then
    json+=", \"result\": $result"
  elif [ -n "$text" ]; then
    quote "$text"
    json+=", \"last_line\": $quoted"
  fi
  if [ "$1" = failed ]; then
    read_last 3 "$logs/$running.err"
    quote "$text"
    json+=", \"error\": $quoted"
  fi
  records[${#names[@]} - 1]="$json}"
}
# enter NAME: the next stage, which is under way from now.
enter() {
  look_at_clock
  running=$1 since=$now_ms
  names+=("$1")
  records+=('{"state": "running"}')
  write_part running
}

# stage NAME SECONDS COMMAND...: a program or a function; its output to NAME.out, errors to NAME.err. Fails as it does.
stage() {
  local limit=$2 left=$((seconds - SECONDS)) status state=passed outcome=ok
  enter "$1"
  shift 2
  ! declare -F "$1" >/dev/null || set -- bash -c '"$@"' - "$@"
  [ "$left" -ge "$limit" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    status=124
    echo "no time left" >"$logs/$running.err"
  else
    timeout -k 10 "$limit" "$@" >"$logs/$running.out" 2>"$logs/$running.err" </dev/null &
    child=$!
    wait $child
    status=$?
    child=
  fi
  [ $status = 0 ] || state=failed outcome="FAILED, status $status"
  look_at_clock
  record $state $status $((now_ms - since))
  printf '%-28s %s (%s s)\n' "$running" "$outcome" $(((now_ms - since) / 1000))
  [ $status = 0 ] || tail -n 6 "$logs/$running.out" "$logs/$running.err" 2>/dev/null
  running=
  write_part running
  return $status
}
# skip NAME REASON: a stage that this build or machine cannot play.
skip() {
  names+=("$1")
  quote "$2"
  records+=("{\"state\": \"skipped\", \"reason\": $quoted}")
  printf '%-28s skipped: %s\n' "$1" "$2"
}

begin_part() {
  trap cut_off TERM INT HUP
  write_part running
}
# end STATE STATUS
end() {
  write_part "$1"
  echo "gpu_gate.sh: $part: $1 after $SECONDS s${reason:+, $reason}; $out/$part.json, $out/$part.tar.gz"
  exit "$2"
}
# Something ends the gate: so does the stage under way, and what it has printed counts.
cut_off() {
  trap '' TERM INT HUP
  [ -z "$child" ] || kill "$child" 2>/dev/null
  look_at_clock
  [ -z "$running" ] || record "cut off" 143 $((now_ms - since))
  write_part "cut off"  # before waiting: a second signal may be one that nobody can catch
  [ -z "$child" ] || wait "$child"
  end "cut off" 75
}
# read_said KEY: sets `text` to the first text of that name, not empty, in what doctor has printed; else to nothing.
read_said() {
  local line pattern="^ *\"$1\": \"(.+)\",?$"
  text=
  while IFS= read -r line; do
    if [[ $line =~ $pattern ]]; then
      text=${BASH_REMATCH[1]}
      return
    fi
  done <"$logs/doctor.out"
}
# The GPU that doctor has found. Where it finds none there is nothing to show; where there is one, the gate has failed.
find_card() {
  local text
  [ "$device" = cuda ] || return 0
  read_said name
  card=$text
  read_said architecture
  architecture=$text
  [ -z "$card" ] || return 0
  read_said problem
  [ -n "$text" ] || read_last 1 "$logs/doctor.err"
  reason="no GPU: ${text:-this build is for CPUs}"
  if ls /dev/nvidia[0-9]* /dev/dxg >/dev/null 2>&1; then end failed 1; else end "no device" 77; fi
}
# Passed when every stage has; skipped ones count as failures on a card, where they have shown nothing.
end_part() {
  local failed=() i
  for i in "${!names[@]}"; do
    case ${records[i]} in
      '{"state": "passed"'*) ;;
      '{"state": "skipped"'*) [ "$device" = cpu ] || failed+=("${names[i]}") ;;
      *) failed+=("${names[i]}") ;;
    esac
  done
  reason=${failed[*]:+not shown: ${failed[*]}}
  if [ ${#failed[@]} = 0 ]; then end passed 0; else end failed 1; fi
}
