# What scripts that run commands share: to be sourced. They have a folder `work`, and end with `exit "$failed"`.
failed=0
checked=0
limit=0 # seconds a command may take; 0: any

fail() {
  echo "FAILED  $1"
  failed=1
}
# expect CODE WORD COMMAND...: the exit code, and a word in what it printed (stdout and stderr).
expect() {
  local want="$1" word="$2" code=0
  shift 2
  timeout "$limit" "$@" >"$work/out" 2>&1 </dev/null || code=$?
  checked=$((checked + 1))
  if [[ "$code" -ne "$want" ]] || ! grep -qF -- "$word" "$work/out"; then
    fail "$*: exit $code, expected $want and '$word' in: $(head -c 600 "$work/out")"
  fi
}
