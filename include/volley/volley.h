/* SPDX-License-Identifier: BSD-3-Clause
 *
 * volley.h: the C ABI of Volley, exact attention for NVIDIA Hopper and for CPUs.
 *
 * Three steps, the same on every machine:
 *   1. describe a problem (geometry and options; no buffers needed)     volley_problem
 *   2. make a plan: which backend and kernel will run, and why          volley_plan_create
 *   3. run the plan on buffers, as often as you like                    volley_run
 *
 * The rules behind every field are in docs/contract.md. C99; no CUDA header is needed.
 *
 * Notation: b batch, sq and sk query and key length, hq and hk query and key heads (hq % hk == 0,
 * query head h reads key head h / (hq / hk)), d and dv head dims of q/k and of v/o.
 */
#ifndef VOLLEY_VOLLEY_H
#define VOLLEY_VOLLEY_H

#include <stdint.h>

#define VOLLEY_VERSION_MAJOR 0
#define VOLLEY_VERSION_MINOR 1
#define VOLLEY_VERSION_PATCH 0
#define VOLLEY_ABI_VERSION 1

#if defined(VOLLEY_STATIC) || !defined(__GNUC__)
#  define VOLLEY_API
#else
#  define VOLLEY_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Enumerations: always int32_t in structs and calls --------------------------------------- */

/* What a call answers. Every function that can fail returns one of these. */
enum {
  VOLLEY_OK = 0,
  VOLLEY_INVALID_ARGUMENT = 1, /* the call is wrong; the message names argument, found, wanted */
  VOLLEY_NOT_OFFERED = 2,      /* the call is right, no backend offers it; see the reason code */
  VOLLEY_NOT_BUILT = 3,        /* the backend that was asked for is not in this build */
  VOLLEY_NO_DEVICE = 4,        /* the device is not on this machine */
  VOLLEY_OUT_OF_MEMORY = 5,
  VOLLEY_DEVICE_ERROR = 6, /* the device or its driver reported an error */
  VOLLEY_INTERNAL = 7      /* a bug of ours */
};

/* Why: set in volley_error.reason, and in a plan for each faster backend that was passed over. */
enum {
  VOLLEY_REASON_NONE = 0,
  /* bad input (code VOLLEY_INVALID_ARGUMENT) */
  VOLLEY_REASON_NULL = 1,   /* something required is NULL or absent */
  VOLLEY_REASON_STRUCT = 2, /* size field, reserved field or unknown enumeration value */
  VOLLEY_REASON_DTYPE = 3,  /* also: a right dtype that a backend does not offer */
  VOLLEY_REASON_SHAPE = 4,
  VOLLEY_REASON_STRIDE = 5,    /* also: a stride that a backend cannot take */
  VOLLEY_REASON_ALIGNMENT = 6, /* also: an alignment that a backend cannot take */
  VOLLEY_REASON_OVERLAP = 7,   /* elements of an output share memory */
  VOLLEY_REASON_DEVICE = 8,    /* tensors on different devices, or not on the plan's */
  VOLLEY_REASON_WINDOW = 9,    /* also: a window that a backend does not offer */
  VOLLEY_REASON_RANGE = 10,    /* a number out of its range */
  VOLLEY_REASON_CONTENTS = 11, /* lengths, scales or page table hold impossible values */
  VOLLEY_REASON_WORKSPACE = 12,
  VOLLEY_REASON_OPTION = 13, /* options that exclude each other, or a bad environment variable */
  /* not offered: the feature that a backend lacks */
  VOLLEY_REASON_HEAD_DIM = 32,
  VOLLEY_REASON_SCALE = 33,
  VOLLEY_REASON_SOFTCAP = 34,
  VOLLEY_REASON_SINK = 35,
  VOLLEY_REASON_VARLEN = 36,
  VOLLEY_REASON_USED_LENGTHS = 37,
  VOLLEY_REASON_PAGED = 38,
  VOLLEY_REASON_BIAS = 39,
  VOLLEY_REASON_ALIBI = 40,
  VOLLEY_REASON_MASK = 41,
  VOLLEY_REASON_DROPOUT = 42,
  VOLLEY_REASON_DESCALE = 43,
  VOLLEY_REASON_SPLITS = 44,
  VOLLEY_REASON_DETERMINISTIC = 45,
  VOLLEY_REASON_BATCH_INVARIANT = 46,
  VOLLEY_REASON_PRECISION = 47,
  VOLLEY_REASON_ACCURACY = 48,
  VOLLEY_REASON_OUTPUT_DTYPE = 49,
  VOLLEY_REASON_ACCUMULATE = 50,
  VOLLEY_REASON_HOOK = 51,
  VOLLEY_REASON_BACKWARD = 52,
  VOLLEY_REASON_SIZE = 53, /* the problem is larger than the backend's grid or offsets */
  /* not offered: the machine */
  VOLLEY_REASON_ARCH = 64,          /* needs another compute capability */
  VOLLEY_REASON_SHARED_MEMORY = 65, /* no config fits what the device grants */
  VOLLEY_REASON_NOT_BUILT = 66,
  VOLLEY_REASON_NOT_CHOSEN = 67 /* another backend was forced */
};

enum {
  VOLLEY_BACKEND_AUTO = 0,
  VOLLEY_BACKEND_REFERENCE = 1, /* naive, float64: the oracle */
  VOLLEY_BACKEND_CPU = 2,       /* tiled, vectorised, all cores */
  VOLLEY_BACKEND_SM80 = 3,      /* FlashAttention-2 style: mma.sync, any strides */
  VOLLEY_BACKEND_SM90 = 4       /* Hopper: TMA and wgmma */
};

enum { VOLLEY_OP_FORWARD = 0, VOLLEY_OP_BACKWARD = 1 };

/* Where a mask band lies: query i sees key j iff -left <= j - i - offset <= right. */
enum {
  VOLLEY_ALIGN_BOTTOM_RIGHT = 0, /* offset = sk - sq, of each sequence's used lengths */
  VOLLEY_ALIGN_TOP_LEFT = 1,     /* offset = 0 */
  VOLLEY_ALIGN_EXPLICIT = 2      /* offset = mask_offset */
};

enum {
  VOLLEY_PRECISION_DEFAULT = 0, /* the inputs' own */
  VOLLEY_PRECISION_FP8 = 1,     /* 16-bit inputs, quantised inside */
  VOLLEY_PRECISION_MIXED = 2,   /* QK in 16 bits, PV in fp8 */
  VOLLEY_PRECISION_INT8_QK = 3
};
enum { VOLLEY_ACCURACY_ACCURATE = 0, VOLLEY_ACCURACY_FAST = 1 };
enum { VOLLEY_FORMAT_TEXT = 0, VOLLEY_FORMAT_JSON = 1 };

/* Element types: DLPack's DLDataType packed as code | bits << 8 | lanes << 16. */
enum {
  VOLLEY_I32 = 0x012000,
  VOLLEY_I64 = 0x014000,
  VOLLEY_BOOL = 0x010806,
  VOLLEY_F16 = 0x011002,
  VOLLEY_F32 = 0x012002,
  VOLLEY_F64 = 0x014002, /* the reference backend only */
  VOLLEY_BF16 = 0x011004,
  VOLLEY_E4M3 = 0x01080A, /* float8 e4m3fn: largest 448, no infinity */
  VOLLEY_E8M0 = 0x01080E  /* power-of-two scales: 2^(x - 127) */
};

/* DLPack's device types. */
enum { VOLLEY_DEVICE_CPU = 1, VOLLEY_DEVICE_CUDA = 2 };

/* ---- Structs --------------------------------------------------------------------------------- */

/* A strided view of memory; frozen. Passed by pointer, NULL means absent. Unused fields are 0. */
typedef struct volley_tensor {
  void* data; /* may be NULL in a problem */
  int32_t dtype;
  int32_t ndim;
  int32_t device_type;
  int32_t device_id;
  int64_t shape[5];
  int64_t stride[5]; /* in elements */
  int64_t alignment; /* of data, bytes, a power of two; 0: read off data, or 16 if data is NULL */
  int64_t reserved;
} volley_tensor;

/* What went wrong. Pass NULL if you do not care. */
typedef struct volley_error {
  int32_t code;      /* the returned status again */
  int32_t reason;    /* VOLLEY_REASON_* */
  char message[512]; /* one sentence: which argument, what was found, what is wanted */
} volley_error;

/* Geometry and options of one attention call. Always start from volley_problem_init. */
typedef struct volley_problem {
  uint64_t size; /* of this struct, set by volley_problem_init */
  int32_t op;    /* VOLLEY_OP_* */
  int32_t backend;

  /* Operands. Packed (varlen) tensors drop b: (total_q, hq, d). With a page table k and v are
   * (pages, page, hk, d). */
  const volley_tensor* q; /* (b, sq, hq, d) or (total_q, hq, d): f32, f16, bf16, e4m3 */
  const volley_tensor* k; /* (b, sk, hk, d) or (total_k, hk, d) */
  const volley_tensor* v; /* (b, sk, hk, dv) or (total_k, hk, dv) */
  const volley_tensor* o; /* (b, sq, hq, dv) or (total_q, hq, dv): q's dtype or f32; e4m3: 16-bit */
  const volley_tensor* lse; /* (b, hq, sq) or (hq, total_q) f32; forward: optional */

  /* Lengths, all i32. Sequence n owns rows [cu[n], cu[n + 1]), of which the first used[n] count. */
  const volley_tensor* cu_seqlens_q; /* (b + 1) */
  const volley_tensor* cu_seqlens_k; /* (b + 1) */
  const volley_tensor* seqused_q;    /* (b) */
  const volley_tensor* seqused_k;    /* (b), required with a page table */
  const volley_tensor* page_table;   /* (b, max_pages) */

  const volley_tensor* sink;         /* (hq) f32, f16, bf16: a logit that joins each row's sum */
  const volley_tensor* bias;         /* (b, hq, sq, sk), size 1 or stride 0 broadcasts */
  const volley_tensor* alibi_slopes; /* (hq) or (b, hq) f32 */
  const volley_tensor* mask;         /* (b, hq, sq, sk) bool, true: may see; broadcasts like bias */
  const volley_tensor* q_descale;    /* (b, hq or hk, blocks) f32 or e8m0: multiply back */
  const volley_tensor* k_descale;    /* (b, hk, blocks); paged: (pages, hk, blocks) */
  const volley_tensor* v_descale;
  const volley_tensor* dropout_seed;   /* () or (1) i64 */
  const volley_tensor* dropout_offset; /* () or (1) i64; absent: 0 */

  /* Backward only. Gradients have the shape of what they belong to; its dtype or f32. */
  const volley_tensor* dout; /* like o */
  const volley_tensor* dlse; /* like lse; optional */
  const volley_tensor* dq;
  const volley_tensor* dk;
  const volley_tensor* dv;
  const volley_tensor* dbias; /* like bias; size 1 sums over that axis; optional */
  const volley_tensor* dsink; /* (hq) f32; optional */

  double scale;     /* of q.k; NaN: 1/sqrt(d) */
  double softcap;   /* logit = softcap * tanh(scale * q.k / softcap); 0: none */
  double dropout_p; /* probability that a weight is dropped, in [0, 1) */

  int32_t causal; /* 1: right = 0, or window_right if that is smaller */
  int32_t mask_alignment;
  int64_t mask_offset;
  int64_t window_left; /* -1: open; both ends are inclusive */
  int64_t window_right;

  int64_t max_seqlen_q; /* varlen: an upper bound of the lengths; 0: total_q */
  int64_t max_seqlen_k;

  int32_t q_scale_block; /* rows per descale block, >= 1 */
  int32_t k_scale_block;
  int32_t v_scale_block;
  int32_t precision;
  int32_t accuracy;
  int32_t deterministic;
  int32_t batch_invariant;
  int32_t accumulate_grads; /* backward adds into dq, dk, dv, dbias, dsink */
  int32_t num_splits;       /* of the keys; 0: the plan chooses */
  int32_t max_sms;          /* 0: all */
  int64_t split_size;       /* keys a split, a fixed size; 0: not fixed */
  int32_t num_threads;      /* of the CPU backends; 0: all, or VOLLEY_THREADS */
  int32_t score_hook;       /* reserved, 0 */
  int32_t mask_hook;        /* reserved, 0 */
  int32_t reserved;         /* 0 */
} volley_problem;

/* The buffers of one run; same names as in the problem. Start from volley_buffers_init. */
typedef struct volley_buffers {
  uint64_t size;
  const void *q, *k, *v;
  void* o;   /* backward reads it */
  void* lse; /* backward reads it */
  const void *cu_seqlens_q, *cu_seqlens_k, *seqused_q, *seqused_k, *page_table;
  const void *sink, *bias, *alibi_slopes, *mask;
  const void *q_descale, *k_descale, *v_descale;
  const void *dropout_seed, *dropout_offset;
  const void *dout, *dlse;
  void *dq, *dk, *dv, *dbias, *dsink;
} volley_buffers;

/* An immutable plan; may be used from many threads at once. */
typedef struct volley_plan volley_plan;

/* ---- Calls ----------------------------------------------------------------------------------- */

VOLLEY_API int32_t volley_abi_version(void);
VOLLEY_API const char* volley_version(void); /* "0.1.0" */

/* Names of codes, as the messages and the JSON use them; "unknown" for anything else. */
VOLLEY_API const char* volley_status_name(int32_t status);
VOLLEY_API const char* volley_reason_name(int32_t reason);
VOLLEY_API const char* volley_backend_name(int32_t backend);
VOLLEY_API const char* volley_dtype_name(int32_t dtype);

/* Fill the first `size` bytes with defaults. The inline forms below pass sizeof. */
VOLLEY_API void volley_problem_init_sized(volley_problem* problem, uint64_t size);
VOLLEY_API void volley_buffers_init_sized(volley_buffers* buffers, uint64_t size);

static inline void volley_problem_init(volley_problem* problem) {
  volley_problem_init_sized(problem, sizeof *problem);
}
static inline void volley_buffers_init(volley_buffers* buffers) {
  volley_buffers_init_sized(buffers, sizeof *buffers);
}

/* Fills `size` bytes of `buffers`: initialised, with every data pointer that the problem's tensors
 * hold. The inline form passes sizeof. */
VOLLEY_API int32_t volley_buffers_from_problem_sized(const volley_problem* problem,
                                                     volley_buffers* buffers, uint64_t size,
                                                     volley_error* error);

static inline int32_t volley_buffers_from_problem(const volley_problem* problem,
                                                  volley_buffers* buffers, volley_error* error) {
  return volley_buffers_from_problem_sized(problem, buffers, sizeof *buffers, error);
}

/* Decides what runs. Depends on geometry and device only, never on contents; loads the kernel, so
 * that later runs can be captured in a CUDA graph.
 * device: NULL for the device that the tensors are on, "cuda:0", "cpu", or a profile to plan for a
 * machine that is not here ("h200", "h100", "a100", "l40s"; such a plan cannot be run).
 * Errors: INVALID_ARGUMENT, NOT_OFFERED, NOT_BUILT, NO_DEVICE; *plan is then NULL. */
VOLLEY_API int32_t volley_plan_create(const volley_problem* problem, const char* device,
                                      volley_plan** plan, volley_error* error);
VOLLEY_API void volley_plan_destroy(volley_plan* plan);

VOLLEY_API int32_t volley_plan_backend(const volley_plan* plan);
/* Why the fastest backend of this device was passed over; VOLLEY_REASON_NONE if it runs. */
VOLLEY_API int32_t volley_plan_reason(const volley_plan* plan);
/* Bytes of device (or host) memory, 256-byte aligned, that volley_run wants. */
VOLLEY_API uint64_t volley_plan_workspace_size(const volley_plan* plan);
VOLLEY_API int32_t volley_plan_equal(const volley_plan* a, const volley_plan* b);
/* Writes the plan as text or JSON, cut to `capacity` with a final 0; returns the full length. */
VOLLEY_API uint64_t volley_plan_describe(const volley_plan* plan, int32_t format, char* buffer,
                                         uint64_t capacity);

/* Runs a plan. stream: a cudaStream_t, ignored on the CPU (which returns when it is done). On a GPU
 * the call only enqueues: no synchronisation, no allocation. The workspace's contents are arbitrary
 * before and after. A failed call leaves outputs untouched unless the status is DEVICE_ERROR. */
VOLLEY_API int32_t volley_run(const volley_plan* plan, const volley_buffers* buffers,
                              void* workspace, uint64_t workspace_size, void* stream,
                              volley_error* error);

/* Merges n partial results over disjoint sets of keys:
 *   lse = log(sum exp(lse_n) [+ exp(sink)]),  o = sum exp(lse_n - lse) o_n.
 * o_parts (n, b, sq, hq, dv) or (n, total_q, hq, dv); lse_parts (n, b, hq, sq) or (n, hq, total_q)
 * f32; sink (hq) or NULL: enters once, here; o and lse like a forward's outputs, lse may be NULL.
 * All tensors carry data. A part with lse = -inf counts as empty, whatever its o holds. */
VOLLEY_API int32_t volley_combine(const volley_tensor* o_parts, const volley_tensor* lse_parts,
                                  const volley_tensor* sink, const volley_tensor* o,
                                  const volley_tensor* lse, void* stream, volley_error* error);

/* What this machine has, what would run on it, what is missing and how to get it. Like describe. */
VOLLEY_API uint64_t volley_doctor(int32_t format, char* buffer, uint64_t capacity);

/* Log lines go to this callback; NULL restores the default, which writes to stderr and is silent
 * unless the environment has VOLLEY_LOG=plan. */
typedef void (*volley_log_callback)(const char* line, void* user);
VOLLEY_API void volley_set_log(volley_log_callback callback, void* user);

/* ---- DLPack ---------------------------------------------------------------------------------- */

/* Needs dlpack.h included first. Returns a view of `t` (byte_offset applied); strides NULL means
 * contiguous. ndim above 5 yields ndim = -1, which every call refuses. */
#ifdef DLPACK_VERSION
#  define VOLLEY_HAS_DLPACK 1
#elif defined(DLPACK_MAJOR_VERSION)
#  define VOLLEY_HAS_DLPACK 1
#endif
#ifdef VOLLEY_HAS_DLPACK
static inline volley_tensor volley_tensor_from_dlpack(const DLTensor* t) {
  volley_tensor v = {0};
  int64_t contiguous = 1;
  v.dtype = (int32_t)(t->dtype.code | t->dtype.bits << 8 | (int32_t)t->dtype.lanes << 16);
  v.device_type = (int32_t)t->device.device_type;
  v.device_id = t->device.device_id;
  v.data = t->data ? (char*)t->data + t->byte_offset : 0;
  v.ndim = t->ndim <= 5 ? t->ndim : -1;
  for (int32_t i = v.ndim - 1; i >= 0; --i) {
    v.shape[i] = t->shape[i];
    v.stride[i] = t->strides ? t->strides[i] : contiguous;
    contiguous *= t->shape[i];
  }
  return v;
}
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* VOLLEY_VOLLEY_H */
