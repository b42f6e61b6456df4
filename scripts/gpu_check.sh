#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs one part of the GPU evidence, from a bundle that scripts/gpu_bundle.sh made, on the machine
# with the GPU. Each part takes at most 8 minutes and writes DIR/PART.json with the facts of the
# machine; exits 1 when anything failed.
#   gpu_check.sh PART --out DIR [ARGUMENT...]
#     tests      the cuda tests, `volley attend` on real data, `volley doctor`; arguments name the
#                test programs, all of them if there are none: cuda_check_tests
#     sanitizer  compute-sanitizer (memcheck, synccheck, initcheck, racecheck) on small cases
#     host       the host's time of a run beside a launch's, as host.json
#     rows       what each technique is worth, as rows.json (of gpu_bundle.sh --experiments)
#     bench      timings beside torch's kernels, as forward.json (needs python3 with torch);
#                arguments go to bench/compare.py: --part 1/2, --only "bf16 d 128"
#     v2         the sm80 kernels beside torch's FlashAttention-2, forward and backward, as v2.json;
#                a first argument fwd or bwd takes one of them; others go to bench/compare.py,
#                --only bf16 if there are none
set -euo pipefail
if [ $# -lt 3 ] || [ "$2" != --out ] || { [ $# != 3 ] && [[ ! $1 =~ ^(tests|bench|v2)$ ]]; }; then
  sed -n '7,18s/^# \{0,5\}//p' "$0" >&2
  exit 2
fi
part=$1
mkdir -p "$3"
out=$(cd "$3" && pwd)
shift 3
cd "$(dirname "$0")"
if [ ! -f bin/volley ]; then
  echo "gpu_check.sh: run it from a bundle that scripts/gpu_bundle.sh made" >&2
  exit 2
fi
chmod +x bin/*  # a transfer may have dropped the modes
export TEST_COMMAND=$PWD/bin/volley TEST_DATA=$PWD/data  # tests/cli/command.h

smi() { nvidia-smi -i 0 --query-gpu="$1" --format=csv,noheader,nounits | sed 's/ *$//'; }
number() { [[ $1 =~ ^[0-9.]+$ ]] && echo "${1%.*}" || echo null; }

facts() {  # "machine" and "source", as results/ has them
  cat <<EOF
"machine": {"device": "$(smi name)", "power_limit_w": $(number "$(smi power.limit)"),
  "driver": "$(smi driver_version)", "cuda": "$(cat cuda_version)",
  "cpu": "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)", "threads": $(nproc)},
"source": $(cat source.json)
EOF
}

escape() { tr -d '\000-\010\013-\037' | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/ /g' | tr '\n' ' '; }

# What is left of the part's 8 minutes, less some for the record: the limit of each command.
left() { echo $((SECONDS < 459 ? 460 - SECONDS : 1)); }

checks=0 records=$(mktemp -d)  # one file for each check, by number
trap 'rm -rf "$records"' EXIT
check() {  # check NAME COMMAND...: the command must exit 0; its last lines go into the record
  checks=$((checks + 1))
  run_check "$(printf '%s/%03d' "$records" $checks)" "$@"
}
beside() {  # as check, beside those before it: for what is not timed; end() waits for all
  checks=$((checks + 1))
  run_check "$(printf '%s/%03d' "$records" $checks)" "$@" &
}
run_check() {  # run_check FILE NAME COMMAND...
  local file=$1 name=$2 begin=$SECONDS passed=true status=0
  "${@:3}" >"$file.log" 2>&1 || status=$?
  [ $status = 0 ] || passed=false
  {
    if [ $status != 0 ]; then
      tail -n 60 "$file.log"
    elif [[ $part =~ ^(host|bench|v2)$ ]]; then
      cat "$file.log"
    fi
    echo "$name: $([ $status = 0 ] && echo passed || echo "FAILED (exit $status)")," \
      "$((SECONDS - begin)) s"
  } >"$file.shown"
  cat "$file.shown"
  printf '{"name": "%s", "passed": %s, "seconds": %s,\n    "last_lines": "%s"}' "$name" $passed \
    $((SECONDS - begin)) "$(tail -n 8 "$file.log" | escape)" >"$file"
}

# A test binary that skips everything has shown nothing.
all_ran() {  # all_ran SHARD SHARDS BINARY
  local said
  said=$(GTEST_SHARD_INDEX=$1 GTEST_TOTAL_SHARDS=$2 timeout "$(left)" "$3" --gtest_brief=1 2>&1) ||
    { echo "$said"; return 1; }
  echo "$said"
  [[ $said != *SKIPPED* ]]
}

# racecheck knows nothing of mbarriers. Passes when all that it names are accesses of tile records,
# which docs/forward.md explains: the bundle's record_sites has them.
explained_races() {  # explained_races COMMAND...
  local log sites status=0 entry='fwd_entry \1 \2'
  log=$(mktemp)
  timeout "$(left)" compute-sanitizer --tool racecheck --print-limit 1000000 --error-exitcode 9 \
    "$@" >"$log" 2>&1 || status=$?
  grep -E 'RACECHECK SUMMARY|FAILED|PASSED' "$log"
  sites=$(sed -nE "s/.* access at .*fwd_entry<\(int\)([0-9]+)>.*\+(0x[0-9a-f]+).*/$entry/p" \
    "$log" | sort | uniq -c)
  echo "$(grep -c . <<<"$sites") sites"
  [[ $status = 0 || $status = 9 ]] && grep -q 'RACECHECK SUMMARY' "$log" &&
    ! grep -qE 'FAILED|reported between Write' "$log" &&
    [ "$(grep -c 'Race reported' "$log")" = \
      "$(sed -n 's/.*RACECHECK SUMMARY.*(\([0-9]*\) errors.*/\1/p' "$log")" ] &&
    [ "$(grep -c ' access at ' "$log")" = \
      "$(awk '{ n += $1 } END { print n + 0 }' <<<"$sites")" ] &&
    ! sed -E 's/^ *[0-9]+ //' <<<"$sites" | grep . | grep -vxFf record_sites
}

host_row() {  # host_row FILE FLAG...: shown, and as a record
  timeout "$(left)" bin/volley bench --backend sm90 --protocol host "${@:2}" &&
    timeout "$(left)" bin/volley bench --backend sm90 --protocol host --json \
      --facts "$out/facts.json" "${@:2}" >"$1"
}

end() {  # waits for the checks and writes the record of those in it
  wait
  local files=("$records"/???) failed
  failed=$({ grep -l '"passed": false' "${files[@]}" || true; } | wc -l)
  if [ $# -gt 0 ]; then
    {
      printf '{"schema": 1, "part": "%s",\n%s,\n"taken": "%s",\n"results": [\n' "$part" \
        "$(facts)" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
      local separator=
      for file in "${files[@]}"; do
        printf '%s' "$separator"
        cat "$file"
        separator=$',\n'
      done
      printf '\n]}\n'
    } >"$1"
  fi
  echo "$part: ${#files[@]} checks, $failed failed, $SECONDS s"
  exit $((failed > 0))
}

case $part in
  tests)
    [ $# -gt 0 ] || set -- $(cd bin && echo *_tests)
    for name; do
      [ "$name" != cli_cuda_tests ] || continue  # it times calls, so it runs alone
      shards=1
      [ "$name" != cuda_check_tests ] || shards=6  # most of its time is the reference's, on the CPU
      for ((shard = 0; shard < shards; shard++)); do
        beside "$name $((shard + 1))/$shards" all_ran $shard $shards "bin/$name"
      done
    done
    for backend in sm90 sm80; do
      for file in data/*; do
        beside "attend $backend $(basename "$file")" timeout "$(left)" \
          bin/volley attend --backend $backend "$file"
      done
    done
    wait
    [[ " $* " != *" cli_cuda_tests "* ]] || check cli_cuda_tests all_ran 0 1 bin/cli_cuda_tests
    bin/volley doctor --json >"$out/doctor.json"
    check "doctor names sm90" grep -q sm90 "$out/doctor.json"
    end "$out/tests.json"
    ;;
  sanitizer)
    under() {  # under TOOL NAME COMMAND...
      local tool=$1 name=$2
      shift 2
      if [ "$tool" = racecheck ]; then
        beside "$tool $name" explained_races "$@"
      else
        beside "$tool $name" timeout "$(left)" \
          compute-sanitizer --tool "$tool" --error-exitcode 9 "$@"
      fi
    }
    for tool in racecheck initcheck memcheck synccheck; do  # the slowest first
      # Each option of the backward, in small cases; then the forwards.
      under $tool gradients bin/cuda_check_tests --gtest_filter='*/GpuGradientSuites.Edges/*'
      for backend in sm80 sm90; do
        under $tool "keys $backend" bin/cuda_check_tests \
          --gtest_filter="*/GpuSuites.Keys/$backend"
        under $tool "attend $backend" bin/volley attend --backend $backend \
          data/smollm2_135m_layer15.safetensors
      done
      under $tool "each kernel" bin/cuda_forward_tests --gtest_filter='*Rows.SmallProblems/*'
    done
    end "$out/sanitizer.json"
    ;;
  host)
    echo "{$(facts)}" >"$out/facts.json"
    number=0
    for flags in "--d 64 --hq 4" "--d 128 --causal" "--d 64 --hq 8 --hk 2 --b 8 --causal"; do
      number=$((number + 1))
      check "host $flags" host_row "$out/host_$number.json" --sq 512 $flags
    done
    check "one record" python3 bench/merge.py --out "$out/host.json" "$out"/host_?.json
    rm -f "$out"/host_?.json "$out/facts.json"
    end
    ;;
  rows)
    echo "{$(facts)}" >"$out/facts.json"
    left_out() {  # left_out N: the labelled rows from the N-th experiment on
      local number=$1 label rows=
      for label in "all techniques" "without ping-pong" "without overlap" "one stage" \
        "without the flat loop" "lazy maximum" "exact maximum"; do
        rows+="$label@+$number;"
        number=$((number + 1))
      done
      echo "${rows}all techniques again@+$1"
    }
    time_rows() {  # time_rows OUT ARGUMENT...
      env PYTHONUNBUFFERED=1 timeout "$(left)" python3 bench/rows.py \
        --library lib/libvolley_experiments.so --facts "$out/facts.json" --out "$@"
    }
    check "rows" time_rows "$out/rows.json" --lengths 512,2048,8192 \
      --cells "bf16-128-full:$(left_out 0)" "bf16-128-causal:$(left_out 7)"
    check "worst case" time_rows "$out/rows_spread.json" --lengths 2048 --spread 8 --quick \
      --cells "bf16-128-full:trusted maximum@+0;exact maximum@+6" \
      "fp16-128-full:trusted maximum@"
    rm -f "$out/facts.json"
    end
    ;;
  bench)
    echo "{$(facts)}" >"$out/facts.json"
    check "bench" env PYTHONUNBUFFERED=1 timeout "$(left)" python3 bench/compare.py "$@" \
      --library lib/libvolley.so --facts "$out/facts.json" --out "$out/forward.json"
    rm -f "$out/facts.json"
    end "$out/bench.json"
    ;;
  v2)
    echo "{$(facts)}" >"$out/facts.json"
    ops="fwd bwd"
    if [[ ${1:-} =~ ^(fwd|bwd)$ ]]; then
      ops=$1
      shift
    fi
    [ $# -gt 0 ] || set -- --only bf16
    for op in $ops; do
      check "$op" env PYTHONUNBUFFERED=1 timeout "$(left)" python3 bench/compare.py --op $op \
        --peers fa2,volley_v2,volley_v2/misaligned "$@" \
        --layouts "bf16 d 128 full s 4096" --layouts "bf16 d 128 causal s 4096" \
        --library lib/libvolley.so --facts "$out/facts.json" --out "$out/v2_$op.json"
    done
    check "one record" python3 bench/merge.py --out "$out/v2.json" "$out"/v2_???.json
    rm -f "$out"/v2_???.json "$out/facts.json"
    end
    ;;
  *) echo "gpu_check.sh: no part '$part'; wanted is tests, sanitizer, host, rows, bench or v2" >&2
    exit 2 ;;
esac
