#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Profiles one launch of the forward for each of a few problems with Nsight Compute (ncu), from a
# bundle that scripts/gpu_bundle.sh made, and writes ncu's own values as CSV: a line of names, one
# of units, then a line a problem. docs/profiling.md says how to read them.
#   bench/profile.sh OUT_CSV [BUNDLE]
# Metrics that the installed ncu does not know are named and left out.
set -euo pipefail
if [ $# -lt 1 ]; then
  sed -n '7s/^# *//p' "$0" >&2
  exit 2
fi
out=$1 bundle=${2:-$(dirname "$0")/..}
wanted='gpu__time_duration.sum
sm__cycles_elapsed.max
sm__inst_executed_pipe_tensor_op_gmma.sum
sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed
sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active
smsp__inst_executed_op_tma_ld.sum
smsp__sass_inst_executed_op_tma_ld.sum
l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum
smsp__inst_executed_op_global_ld.sum
sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active
sm__inst_issued.avg.pct_of_peak_sustained_active
lts__t_sector_hit_rate.pct
dram__bytes_read.sum
smsp__sass_inst_executed_op_local.sum'

known=$(ncu --query-metrics --chip gh100)
metrics=
for metric in $wanted; do
  if grep -qE "^${metric%%.*}( |$)" <<<"$known"; then
    metrics+=,$metric
  else
    echo "profile.sh: this ncu does not know $metric" >&2
  fi
done

first=1
: >"$out"
for dtype in bf16 fp16; do
  for d in 64 128 256; do
    for mask in full causal; do
      [ $dtype = bf16 ] || [ $d = 128 ] || continue
      flags=(--dtype $dtype --b 4 --sq 4096 --hq $((2048 / d)) --d $d)
      [ $mask = full ] || flags+=(--causal)
      lines=$(ncu --csv --page raw --metrics "${metrics#,}" --kernel-name regex:fwd_entry \
        --launch-skip 2 --launch-count 1 \
        "$bundle/bin/volley" bench "${flags[@]}" --protocol burst | grep '^"')
      # The header's two lines once; a column in front for the problem.
      sed -e "1s/^/\"problem\",/; 2s/^/\"\",/; 3s/^/\"$dtype d $d $mask\",/" <<<"$lines" |
        sed -n "$first,3p" >>"$out"
      first=3
    done
  done
done
echo "$out: $(($(wc -l <"$out") - 2)) problems"
