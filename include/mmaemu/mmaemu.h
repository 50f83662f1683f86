/* The library for C and for everything that calls C: ctypes, Rust, Julia. C99; usable from C++ too, where the
 * other headers say more.
 *
 * Every function that can fail returns a mmaemu_status; mmaemu_last_error() then says what went wrong, in the
 * calling thread, until its next call of this library. Results are complete or, where that is said,
 * untouched. A char** argument receives a text that the caller frees with mmaemu_free_text; texts returned as
 * const char* belong to the library and stay valid, but for mmaemu_last_error's. Names are those of the
 * Python package. Structures that may grow begin with their size: start from the _INIT macros. Fields that
 * a later version adds mean nothing new while they are zero; a library that does not know one that is set
 * refuses the call. mmaemu_operand and mmaemu_result stay as they are. Functions may be called from several
 * threads at once. */
#ifndef MMAEMU_MMAEMU_H
#define MMAEMU_MMAEMU_H

#include <stddef.h>
#include <stdint.h>

#include "mmaemu/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong, named as the Python exception that carries it. */
typedef enum mmaemu_status {
  MMAEMU_OK = 0,
  MMAEMU_TYPE_ERROR = 1,
  MMAEMU_VALUE_ERROR = 2,
  MMAEMU_KEY_ERROR = 3,
  MMAEMU_OUT_OF_MEMORY = 4,
  MMAEMU_CANCELLED = 5,
  MMAEMU_ERROR = 6,
  MMAEMU_REFERENCE_REJECTS = 7,   /* torch 2.7.1 or the profile's cuBLAS rejects the call */
  MMAEMU_UNSUPPORTED_FEATURE = 8, /* outside of what the recordings cover */
  MMAEMU_SPLIT_UNKNOWN = 9,       /* splitk "auto" cannot decide */
  MMAEMU_BACKEND_UNAVAILABLE = 10
} mmaemu_status;

/* "ValueError", "ReferenceRejectsError", ...; "OK" for MMAEMU_OK. */
MMAEMU_API const char* mmaemu_status_name(mmaemu_status status);
/* The message of this thread's last call, "" after a success. */
MMAEMU_API const char* mmaemu_last_error(void);
MMAEMU_API void mmaemu_free_text(char* text);

MMAEMU_API const char* mmaemu_version(void);

/* `rows` vectors of `depth` (K) codes. The product of a [M, K] and b [N, K] is [M, N]: a weight is passed as
 * its N rows. Strides in elements, of any sign. format: "e4m3" or "e5m2", or torch's names of them. */
typedef struct mmaemu_operand {
  const void* data;
  const char* format;
  int64_t rows;
  int64_t depth;
  int64_t row_stride;
  int64_t depth_stride;
} mmaemu_operand;

/* `rows` x `columns` numbers; no two may share memory, nor may they overlap an operand. format: "float32",
 * "bfloat16", "float16", "e4m3" or "e5m2". Strides in elements. */
typedef struct mmaemu_result {
  void* data;
  const char* format;
  int64_t rows;
  int64_t columns;
  int64_t row_stride;
  int64_t column_stride;
} mmaemu_result;

typedef struct mmaemu_options {
  size_t size;
  const char* profile;    /* NULL: $MMAEMU_PROFILE, else "hopper" */
  int fast;               /* use_fast_accum: nonzero or 0 */
  int64_t split;          /* 0: as the profile's cuBLAS decides ("auto"); 1: none; S > 1 needs a scheme */
  const char* scheme;     /* "contiguous", "serial" or "pairwise" for split > 1, else NULL */
  int threads;            /* 0: as many as the process may run on. Never changes a bit */
  const char* cpu_target; /* NULL: $MMAEMU_CPU_TARGET, else the best of mmaemu_cpu_target_name */
  /* NULL, or polled by the calling thread; nonzero ends the call with MMAEMU_CANCELLED, the result then being
   * partly written. */
  int (*cancelled)(void* user);
  /* NULL, or called for each warning of the call before it computes, with its Python class and text. */
  void (*warn)(const char* class_name, const char* message, void* user);
  void* user; /* for the two above */
  /* accumulate alone: the result type under which the split is looked up. NULL: "float32" */
  const char* out_dtype_for_split;
} mmaemu_options;

#define MMAEMU_OPTIONS_INIT \
  { sizeof(mmaemu_options), NULL, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL }

/* result = scale_a * scale_b * a b^T, as torch._scaled_mm on the profile's GPU returns it. scale_result:
 * NULL, or one number, used for FP8 results. options: NULL for MMAEMU_OPTIONS_INIT. Checked as that call:
 * what torch or cuBLAS refuses is MMAEMU_REFERENCE_REJECTS, also data that is not aligned to 16 bytes and
 * leading dimensions that are not multiples of 16. K = 0 gives +0. Whatever is refused leaves the result
 * untouched. */
MMAEMU_API mmaemu_status mmaemu_scaled_mm(const mmaemu_operand* a, const mmaemu_operand* b, float scale_a,
                                          float scale_b, const float* scale_result,
                                          const mmaemu_result* result, const mmaemu_options* options);

/* The fp32 accumulator before any scale; result->format is "float32". Any alignment and any strides. */
MMAEMU_API mmaemu_status mmaemu_accumulate(const mmaemu_operand* a, const mmaemu_operand* b,
                                           const mmaemu_result* result, const mmaemu_options* options);

/* A weight in the order in which the CPU reads it, for many products; needs the operand no longer. Immutable:
 * several calls may use it at once. */
typedef struct mmaemu_packed mmaemu_packed;
MMAEMU_API mmaemu_status mmaemu_pack(const mmaemu_operand* operand, mmaemu_packed** packed);
MMAEMU_API void mmaemu_free_packed(mmaemu_packed* packed);
/* The same bits as with the operand that was packed. */
MMAEMU_API mmaemu_status mmaemu_scaled_mm_packed(const mmaemu_operand* a, const mmaemu_packed* b,
                                                 float scale_a, float scale_b, const float* scale_result,
                                                 const mmaemu_result* result, const mmaemu_options* options);
MMAEMU_API mmaemu_status mmaemu_accumulate_packed(const mmaemu_operand* a, const mmaemu_packed* b,
                                                  const mmaemu_result* result, const mmaemu_options* options);

/* The arithmetic of one tensor-core instruction. */
typedef struct mmaemu_preset {
  size_t size;
  int64_t nfma; /* products per block; >= 1 */
  int frac;     /* fraction bits kept of each aligned term; 1..40 */
  int frac_out; /* fraction bits kept of the block result; 1..23 */
  int min_exp;  /* floor of the block exponent */
  int late_c;   /* nonzero: c is added after the block sum, in fp32 */
} mmaemu_preset;

#define MMAEMU_PRESET_INIT \
  { sizeof(mmaemu_preset), 16, 13, 13, -132, 0 }

/* Fills *preset, whose size is set, with a shipped preset: "ada", "hopper", "b200_mma_sync". */
MMAEMU_API mmaemu_status mmaemu_find_preset(const char* name, mmaemu_preset* preset);

/* d[r] = c[r] + a_r . b_r, one chain for each row; c: NULL for +0. c and d have a->rows numbers. Of the
 * options threads, cpu_target, cancelled and user count. */
MMAEMU_API mmaemu_status mmaemu_dot(const mmaemu_operand* a, const mmaemu_operand* b, const float* c,
                                    const mmaemu_preset* preset, float* d, const mmaemu_options* options);

/* Which split the profile's cuBLAS takes. Of the options profile, split, scheme, fast, warn and user count.
 */
typedef struct mmaemu_split_query {
  size_t size;
  int64_t M;
  int64_t N;
  int64_t K;
  const char* a_format;
  const char* b_format;
  const char* out_dtype; /* NULL: the format of a */
  int nonstandard;       /* nonzero: operands that are not contiguous in the standard layout */
  int strict;            /* > 0: no inference beyond the recorded decisions; < 0: $MMAEMU_SPLITK_STRICT */
} mmaemu_split_query;

#define MMAEMU_SPLIT_QUERY_INIT \
  { sizeof(mmaemu_split_query), 0, 0, 0, "e4m3", "e4m3", NULL, 0, -1 }

/* S: how many parts. scheme: "none" for one part. json: NULL, or source, verified, table_id and note as well.
 */
MMAEMU_API mmaemu_status mmaemu_resolve_splitk(const mmaemu_split_query* query, const mmaemu_options* options,
                                               int64_t* S, const char** scheme, char** json);

/* What a call would do, without operands: contiguous tensors on a device. */
typedef struct mmaemu_explain_request {
  size_t size;
  int64_t M;
  int64_t N;
  int64_t K;
  const char* a_format;
  const char* b_format;
  const char* out_dtype; /* NULL: the format of a */
  int has_scale_result;
  const char* backend; /* "auto", "reference", "cuda", "cuda:v1", ... */
  const char* device;  /* "auto", "cpu", "cuda:N" */
} mmaemu_explain_request;

#define MMAEMU_EXPLAIN_REQUEST_INIT \
  { sizeof(mmaemu_explain_request), 0, 0, 0, "e4m3", "e4m3", NULL, 0, "auto", "auto" }

/* The JSON of `mmaemu explain`. Of the options profile, split, scheme and fast count. A call that would raise
 * is MMAEMU_OK: plan.validation in the text has its error. */
MMAEMU_API mmaemu_status mmaemu_explain(const mmaemu_explain_request* request, const mmaemu_options* options,
                                        char** json);
/* The JSON of `mmaemu info`. device < 0: the current CUDA device, else the CPU. */
MMAEMU_API mmaemu_status mmaemu_info(int device, char** json);

/* Names 0..count - 1; NULL beyond. */
MMAEMU_API size_t mmaemu_profile_count(void);
MMAEMU_API const char* mmaemu_profile_name(size_t index);
MMAEMU_API size_t mmaemu_preset_count(void);
MMAEMU_API const char* mmaemu_preset_name(size_t index);
MMAEMU_API size_t mmaemu_cpu_target_count(void);
MMAEMU_API const char* mmaemu_cpu_target_name(size_t index);
/* All fields as JSON. name NULL: as in mmaemu_options. */
MMAEMU_API mmaemu_status mmaemu_profile_json(const char* name, char** json);
MMAEMU_API mmaemu_status mmaemu_preset_json(const char* name, char** json);

#ifdef __cplusplus
}
#endif

#endif
