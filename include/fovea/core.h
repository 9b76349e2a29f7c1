/* SPDX-License-Identifier: Apache-2.0
 * Status codes, tensors, contexts, plans and the argument block of a call. Part of fovea.h: C11 and C++20.
 *
 * Every struct of arguments is one definition for C and C++: in C++ its members have the defaults written beside them;
 * in C, fovea_<struct>_init fills the same defaults. `struct_size` lets a struct grow: an older, shorter one is
 * accepted, a longer one only if the part this version does not know is zero.
 */
#ifndef FOVEA_CORE_H_
#define FOVEA_CORE_H_

#include <stdint.h>

#ifdef __cplusplus
#define FOVEA_DEFAULT(...) = __VA_ARGS__
#define FOVEA_NULL nullptr
#define FOVEA_EXTERN_C_BEGIN extern "C" {
#define FOVEA_EXTERN_C_END }
#else
#define FOVEA_DEFAULT(...)
#define FOVEA_NULL 0
#define FOVEA_EXTERN_C_BEGIN
#define FOVEA_EXTERN_C_END
#endif

#if defined(_WIN32)
#define FOVEA_API
#else
#define FOVEA_API __attribute__((visibility("default")))
#endif

#define FOVEA_MAX_RANK 5     /* of a tensor */
#define FOVEA_MAX_SEGMENTS 3 /* of the KV of one attention call */
#define FOVEA_MAX_PARTS 64   /* of one merge_states call */

FOVEA_EXTERN_C_BEGIN

typedef enum fovea_status {
#define FOVEA_STATUS(name, NAME, value, text) FOVEA_##NAME = value,
#include "fovea/status.def"
#undef FOVEA_STATUS
} fovea_status;

/* Fields that hold one of these are int32_t, so that the layout of a struct never depends on a compiler's enum size. */
typedef enum fovea_dtype {
  FOVEA_DTYPE_NONE = 0, /* the tensor is absent */
#define FOVEA_DTYPE(name, NAME, value, block, bytes) FOVEA_##NAME = value,
#include "fovea/dtypes.def"
#undef FOVEA_DTYPE
} fovea_dtype;

typedef enum fovea_op {
#define FOVEA_OP(name, Name, NAME, value, text) FOVEA_OP_##NAME = value,
#include "fovea/operations.def"
#undef FOVEA_OP
} fovea_op;

/* Same numbers as DLPack's DLDeviceType. */
typedef enum fovea_device_type { FOVEA_CPU = 1, FOVEA_CUDA = 2, FOVEA_METAL = 8 } fovea_device_type;

/* A view of memory that the caller owns. Absent where dtype is 0. data may be null when only planning or asking. */
typedef struct fovea_tensor {
  void* data FOVEA_DEFAULT(FOVEA_NULL);
  int32_t dtype FOVEA_DEFAULT(0);       /* fovea_dtype */
  int32_t rank FOVEA_DEFAULT(0);        /* 0 to FOVEA_MAX_RANK */
  int32_t device_type FOVEA_DEFAULT(1); /* fovea_device_type */
  int32_t device_id FOVEA_DEFAULT(0);
  int64_t shape[FOVEA_MAX_RANK] FOVEA_DEFAULT({0, 0, 0, 0, 0});
  int64_t stride[FOVEA_MAX_RANK] FOVEA_DEFAULT({0, 0, 0, 0, 0}); /* elements; 0 repeats; block types: whole blocks */
} fovea_tensor;

/* A packed row-major view on the CPU; shape has `rank` entries. */
FOVEA_API fovea_status fovea_tensor_packed(void* data, int32_t dtype, int32_t rank, const int64_t* shape,
                                           fovea_tensor* out);

/* Runs task(arg, i) for every i in [0, n), in any order on any threads, and returns when all are done. Callers from
 * several threads may queue; a call from inside a task runs inline. count is the number of threads that help. */
typedef struct fovea_thread_pool {
  void* self FOVEA_DEFAULT(FOVEA_NULL);
  int32_t (*count)(void* self) FOVEA_DEFAULT(FOVEA_NULL);
  void (*run)(void* self, void (*task)(void* arg, int64_t i), void* arg, int64_t n) FOVEA_DEFAULT(FOVEA_NULL);
} fovea_thread_pool;

/* May a CUDA context compile kernels that neither the bundle nor the cache holds? It takes 0.1 to 2 seconds each. */
typedef enum fovea_compile {
  FOVEA_COMPILE_NEVER = 0,   /* such a kernel is an error that names it */
  FOVEA_COMPILE_ALLOWED = 1, /* when a plan or the first call needs it */
  FOVEA_COMPILE_WARM = 2     /* every kernel of the catalogue while the context is created, and none later */
} fovea_compile;

typedef struct fovea_context_params {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_context_params));
  int32_t device_type FOVEA_DEFAULT(FOVEA_CPU);
  int32_t device_id FOVEA_DEFAULT(0);
  int32_t threads FOVEA_DEFAULT(0);                        /* CPU: own pool's size; 0 = one per core that may be used */
  const fovea_thread_pool* pool FOVEA_DEFAULT(FOVEA_NULL); /* CPU: the caller's pool, copied; then threads must be 0 */
  const char* isa FOVEA_DEFAULT(FOVEA_NULL); /* CPU: force one of fovea_device_info.isa_compiled, e.g. "AVX2" */
  int32_t compile FOVEA_DEFAULT(0);          /* CUDA: fovea_compile */
  int32_t compile_threads FOVEA_DEFAULT(0);  /* CUDA: of FOVEA_COMPILE_WARM; 0 = one per core that may be used */
  /* CUDA: a bundle, or a folder with fovea-sm_<arch>.bundle; null = beside the library, where it may be
   * absent; "" = none */
  const char* bundle FOVEA_DEFAULT(FOVEA_NULL);
  /* CUDA: folder of compiled kernels; null = $XDG_CACHE_HOME/fovea or ~/.cache/fovea; "" = none */
  const char* cache_dir FOVEA_DEFAULT(FOVEA_NULL);
  /* CUDA: libnvrtc, or a folder that holds it (toolkit, site-packages); null = the loader's path, /usr/local/cuda */
  const char* nvrtc FOVEA_DEFAULT(FOVEA_NULL);
  /* CUDA: compile for this architecture, e.g. "90a", without a device: plans can be made and saved, but not run */
  const char* arch FOVEA_DEFAULT(FOVEA_NULL);
} fovea_context_params;

typedef struct fovea_device_info {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_device_info));
  int32_t device_type FOVEA_DEFAULT(0);
  int32_t device_id FOVEA_DEFAULT(0);
  int32_t threads FOVEA_DEFAULT(0);
  char name[96] FOVEA_DEFAULT({0});          /* model name of the processor or card */
  char isa[32] FOVEA_DEFAULT({0});           /* instruction set in use; CUDA: what kernels are compiled for, "sm_90a" */
  char isa_compiled[128] FOVEA_DEFAULT({0}); /* those in this binary that this machine can run, best first, by spaces */
  int32_t compute_capability FOVEA_DEFAULT(0); /* CUDA: 10 * major + minor; 0 without a device */
  int32_t sm_count FOVEA_DEFAULT(0);           /* CUDA: multiprocessors */
  int32_t smem_bytes FOVEA_DEFAULT(0);         /* CUDA: the most shared memory of one block */
  int32_t kernels_loaded FOVEA_DEFAULT(0);     /* CUDA: by this context; fovea_context_kernels lists them */
  int64_t kernels_compiled FOVEA_DEFAULT(0);   /* CUDA: of those, the ones that NVRTC compiled for it */
  int64_t l2_bytes FOVEA_DEFAULT(0);           /* CUDA */
  int64_t memory_bytes FOVEA_DEFAULT(0);       /* CUDA */
  char driver[32] FOVEA_DEFAULT({0});          /* CUDA: version of CUDA that the driver is for */
  char nvrtc[256] FOVEA_DEFAULT({0});          /* CUDA: version and file, or why there is none */
  char bundle[256] FOVEA_DEFAULT({0});         /* CUDA: file and content, or why there is none */
  char cache[256] FOVEA_DEFAULT({0});          /* CUDA: folder, and why it is not written if it is not */
} fovea_device_info;

/* Flags of fovea_exec. CHECK: synchronise and report bad index values as an error. EARLY: CUDA, from compute capability
 * 9.0: kernels start while the work ahead of them in the stream ends (programmatic dependent launch). They wait for it
 * before they read or write memory, so that results are the same. */
enum { FOVEA_EXEC_CHECK = 1, FOVEA_EXEC_EARLY = 2 };

/* What belongs to one call and not to the operation. scratch: its contents never matter. sync: zeroed once by the
 * caller, left zero by every call, never shared by two calls in flight. Sizes: fovea_plan_workspace. */
typedef struct fovea_exec {
  uint32_t struct_size FOVEA_DEFAULT(sizeof(struct fovea_exec));
  uint32_t flags FOVEA_DEFAULT(0);
  void* stream FOVEA_DEFAULT(FOVEA_NULL); /* the backend's stream; must be null on the CPU */
  void* scratch FOVEA_DEFAULT(FOVEA_NULL);
  uint64_t scratch_bytes FOVEA_DEFAULT(0);
  void* sync FOVEA_DEFAULT(FOVEA_NULL);
  uint64_t sync_bytes FOVEA_DEFAULT(0);
  uint32_t* status FOVEA_DEFAULT(FOVEA_NULL); /* device word that receives a sticky fovea_status; may be null */
} fovea_exec;

typedef struct fovea_context fovea_context; /* one per device; thread-safe; owns kernels and threads, no stream */
typedef struct fovea_plan fovea_plan;       /* immutable, no device memory, usable from many threads */

typedef enum fovea_support {
  FOVEA_SUPPORT_NO = 0,
  FOVEA_SUPPORT_YES = 1,
  FOVEA_SUPPORT_AFTER_COMPILE = 2
} fovea_support;

FOVEA_API const char* fovea_version(void);                 /* "0.1.0" */
FOVEA_API const char* fovea_last_error(void);              /* this thread's last message, valid until its next call */
FOVEA_API const char* fovea_status_name(int32_t status);   /* "invalid_value"; "?" for a number without a row */
FOVEA_API const char* fovea_dtype_name(int32_t dtype);     /* "bf16" */
FOVEA_API const char* fovea_op_name(int32_t op);           /* "attention" */
FOVEA_API const char* fovea_codec_name(int32_t codec);     /* "fp8" */
FOVEA_API const char* fovea_mask_name(int32_t mask);       /* "causal" */
FOVEA_API const char* fovea_scale_kind_name(int32_t kind); /* "token_head" */
FOVEA_API int64_t fovea_dtype_bytes(int32_t dtype, int64_t elements); /* -1: no such type, or no whole blocks */

FOVEA_API void fovea_context_params_init(fovea_context_params* params);
FOVEA_API void fovea_device_info_init(fovea_device_info* info);
FOVEA_API void fovea_exec_init(fovea_exec* exec);

FOVEA_API fovea_status fovea_context_create(const fovea_context_params* params, fovea_context** out);
FOVEA_API void fovea_context_destroy(fovea_context* context); /* plans keep what they need and may still run */
FOVEA_API fovea_status fovea_context_info(const fovea_context* context, fovea_device_info* info);
/* The kernels that the context has made ready, one a line: key, name, where it came from, bytes, registers, local
 * and shared bytes, milliseconds. Writes at most `size` bytes with the final 0; *needed may be null. */
FOVEA_API fovea_status fovea_context_kernels(const fovea_context* context, char* text, uint64_t size, uint64_t* needed);
/* Writes the kernels of a context made with `arch` as a bundle: prebuilt for the plans that it was asked for. */
FOVEA_API fovea_status fovea_context_save_kernels(const fovea_context* context, const char* path);
/* What the bundle `path` holds, whatever it was made for: a line with architecture, count, compiler and sources, then
 * the kernels, one a line: key, name, bytes, registers, local and shared bytes, threads of a block. Reads all of it, so
 * that damage shows. */
FOVEA_API fovea_status fovea_bundle_kernels(const char* path, char* text, uint64_t size, uint64_t* needed);

/* `params` is the parameter struct of the operation `op` (params.h). Pointers in its tensors may be null. */
FOVEA_API fovea_support fovea_supports(fovea_context* context, int32_t op, const void* params); /* reason: last_error */
FOVEA_API fovea_status fovea_plan_create(fovea_context* context, int32_t op, const void* params, fovea_plan** out);
FOVEA_API void fovea_plan_destroy(fovea_plan* plan);
FOVEA_API fovea_status fovea_plan_workspace(const fovea_plan* plan, uint64_t* scratch_bytes, uint64_t* sync_bytes);
/* Which kernel was chosen and why, as text. Writes at most `size` bytes with the final 0; *needed may be null. */
FOVEA_API fovea_status fovea_plan_explain(const fovea_plan* plan, char* text, uint64_t size, uint64_t* needed);
/* Runs a plan with the pointers of `params`. Shapes, types and options must be those of planning; the batch and the
 * number of tokens may be smaller. Nothing is allocated, hashed or locked. exec may be null where no workspace is
 * needed. */
FOVEA_API fovea_status fovea_plan_run(const fovea_plan* plan, const void* params, const fovea_exec* exec);
/* Plan and run in one call. */
FOVEA_API fovea_status fovea_call(fovea_context* context, int32_t op, const void* params, const fovea_exec* exec);

FOVEA_EXTERN_C_END

#endif /* FOVEA_CORE_H_ */
