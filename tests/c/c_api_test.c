/* mmaemu.h from C99: results, refusals, and who owns what. Exit status 1 where an expectation fails. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "mmaemu/mmaemu.h"

static int failures = 0;

static void expect(int holds, const char* what, int line) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "line %d: expected %s; last error: \"%s\"\n", line, what, mmaemu_last_error());
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

static int says(const char* text) {
  return strstr(mmaemu_last_error(), text) != NULL;
}

enum { kRows = 4, kColumns = 16, kDepth = 64 };

/* Every element of a is 1, b's row n has n ones: the product's row is 0, 1, 2, ... */
static unsigned char a_codes[kRows * kDepth];
static unsigned char b_codes[kColumns * kDepth];

static const mmaemu_operand a = {a_codes, "e4m3", kRows, kDepth, kDepth, 1};
static const mmaemu_operand b = {b_codes, "float8_e4m3fn", kColumns, kDepth, kDepth, 1};

static void fill(void) {
  for (int i = 0; i < kRows * kDepth; ++i) a_codes[i] = 0x38;
  for (int n = 0; n < kColumns; ++n)
    for (int k = 0; k < kDepth; ++k) b_codes[n * kDepth + k] = k < n ? 0x38 : 0;
}

static void results(void) {
  float out[kRows * kColumns];
  const mmaemu_result result = {out, "float32", kRows, kColumns, kColumns, 1};
  mmaemu_options options = MMAEMU_OPTIONS_INIT;
  options.profile = "ada";
  options.fast = 1;
  options.split = 1;
  EXPECT(mmaemu_scaled_mm(&a, &b, 0.5F, 4.0F, NULL, &result, &options) == MMAEMU_OK);
  for (int i = 0; i < kRows * kColumns; ++i) EXPECT(out[i] == 2.0F * (float)(i % kColumns));
  EXPECT(mmaemu_accumulate(&a, &b, &result, &options) == MMAEMU_OK);
  EXPECT(out[kColumns - 1] == 15.0F);
  EXPECT(strcmp(mmaemu_last_error(), "") == 0);

  mmaemu_packed* packed = NULL;
  float again[kRows * kColumns];
  const mmaemu_result second = {again, "float32", kRows, kColumns, kColumns, 1};
  EXPECT(mmaemu_pack(&b, &packed) == MMAEMU_OK);
  EXPECT(mmaemu_accumulate_packed(&a, packed, &second, &options) == MMAEMU_OK);
  EXPECT(memcmp(out, again, sizeof out) == 0);
  EXPECT(mmaemu_scaled_mm_packed(&a, packed, 0.5F, 4.0F, NULL, &second, &options) == MMAEMU_OK);
  EXPECT(again[1] == 2.0F);
  mmaemu_free_packed(packed);

  mmaemu_preset preset = MMAEMU_PRESET_INIT;
  EXPECT(mmaemu_find_preset("hopper", &preset) == MMAEMU_OK);
  EXPECT(preset.nfma == 32 && preset.frac == 13);
  const mmaemu_operand some = {b_codes, "e4m3", kRows, kDepth, kDepth, 1};
  const float c[kRows] = {100.0F, 100.0F, 100.0F, 100.0F};
  float d[kRows];
  EXPECT(mmaemu_dot(&a, &some, c, &preset, d, NULL) == MMAEMU_OK);
  for (int r = 0; r < kRows; ++r) EXPECT(d[r] == 100.0F + (float)r);
  EXPECT(mmaemu_dot(&a, &some, NULL, &preset, d, NULL) == MMAEMU_OK);
  EXPECT(d[3] == 3.0F);
}

static int cancel(void* user) {
  return *(int*)user;
}

static void count_warning(const char* class_name, const char* message, void* user) {
  EXPECT(strcmp(class_name, "ExperimentalPresetWarning") == 0 ||
         strcmp(class_name, "UnverifiedSplitWarning") == 0);
  EXPECT(*message != '\0');
  ++*(int*)user;
}

static void refusals(void) {
  float out[kRows * kColumns];
  for (int i = 0; i < kRows * kColumns; ++i) out[i] = 7.0F;
  const mmaemu_result result = {out, "float32", kRows, kColumns, kColumns, 1};
  mmaemu_options options = MMAEMU_OPTIONS_INIT;
  options.split = 1;

  EXPECT(mmaemu_scaled_mm(NULL, &b, 1, 1, NULL, &result, NULL) == MMAEMU_VALUE_ERROR && says("a is null"));
  EXPECT(mmaemu_scaled_mm(&a, NULL, 1, 1, NULL, &result, NULL) == MMAEMU_VALUE_ERROR && says("b is null"));
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, NULL, NULL) == MMAEMU_VALUE_ERROR && says("result is null"));
  EXPECT(mmaemu_scaled_mm_packed(&a, NULL, 1, 1, NULL, &result, NULL) == MMAEMU_VALUE_ERROR);
  EXPECT(mmaemu_pack(&a, NULL) == MMAEMU_VALUE_ERROR && says("packed is null"));

  const mmaemu_operand no_data = {NULL, "e4m3", kRows, kDepth, kDepth, 1};
  EXPECT(mmaemu_scaled_mm(&no_data, &b, 1, 1, NULL, &result, &options) == MMAEMU_VALUE_ERROR && says("null"));
  const mmaemu_operand no_format = {a_codes, NULL, kRows, kDepth, kDepth, 1};
  EXPECT(mmaemu_accumulate(&no_format, &b, &result, NULL) == MMAEMU_VALUE_ERROR && says("a->format"));
  const mmaemu_operand other = {a_codes, "int8", kRows, kDepth, kDepth, 1};
  EXPECT(mmaemu_accumulate(&other, &b, &result, NULL) == MMAEMU_TYPE_ERROR && says("\"int8\""));
  const mmaemu_operand shallow = {a_codes, "e4m3", kRows, 8, kDepth, 1};
  EXPECT(mmaemu_scaled_mm(&shallow, &b, 1, 1, NULL, &result, NULL) == MMAEMU_REFERENCE_REJECTS);
  const mmaemu_operand e5m2_a = {a_codes, "e5m2", kRows, kDepth, kDepth, 1};
  const mmaemu_operand e5m2_b = {b_codes, "e5m2", kColumns, kDepth, kDepth, 1};
  EXPECT(mmaemu_scaled_mm(&e5m2_a, &e5m2_b, 1, 1, NULL, &result, NULL) == MMAEMU_REFERENCE_REJECTS);
  EXPECT(strcmp(mmaemu_status_name(MMAEMU_REFERENCE_REJECTS), "ReferenceRejectsError") == 0);
  const mmaemu_result small = {out, "float32", kRows, kColumns - 1, kColumns, 1};
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, &small, &options) == MMAEMU_VALUE_ERROR && says("[4, 15]"));

  options.profile = "hopper-9000";
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, &result, &options) == MMAEMU_KEY_ERROR && says("hopper-te"));
  options.profile = "hopper";
  options.split = 4;
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, &result, &options) == MMAEMU_VALUE_ERROR);
  options.scheme = "serial";
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, &result, &options) == MMAEMU_VALUE_ERROR);
  options.split = 0;
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, &result, &options) == MMAEMU_VALUE_ERROR && says("\"serial\""));
  options.scheme = NULL;
  options.split = 1;
  options.cpu_target = "avx1024";
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, &result, &options) == MMAEMU_VALUE_ERROR && says("avx1024"));
  options.cpu_target = NULL;
  options.size = 3;
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, &result, &options) == MMAEMU_VALUE_ERROR && says("size is 3"));
  options.size = sizeof(size_t) + 4; /* half a pointer */
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, &result, &options) == MMAEMU_VALUE_ERROR && says("size is 12"));
  const mmaemu_operand shifted = {a_codes + 1, "e4m3", kRows - 1, kDepth, kDepth, 1};
  const mmaemu_result three = {out, "float32", kRows - 1, kColumns, kColumns, 1};
  EXPECT(mmaemu_scaled_mm(&shifted, &b, 1, 1, NULL, &three, NULL) == MMAEMU_REFERENCE_REJECTS &&
         says("16 bytes"));
  for (int i = 0; i < kRows * kColumns; ++i) EXPECT(out[i] == 7.0F);

  mmaemu_preset preset = MMAEMU_PRESET_INIT;
  EXPECT(mmaemu_find_preset("rtx_blackwell", &preset) == MMAEMU_KEY_ERROR);
  preset.frac = 41;
  EXPECT(mmaemu_dot(&a, &a, NULL, &preset, out, NULL) == MMAEMU_VALUE_ERROR && says("frac"));
  EXPECT(mmaemu_dot(&a, &a, NULL, NULL, out, NULL) == MMAEMU_VALUE_ERROR && says("preset is null"));
}

/* A program that was built with the header of an earlier or a later version. */
static void other_versions(void) {
  float out[kRows * kColumns];
  const mmaemu_result result = {out, "float32", kRows, kColumns, kColumns, 1};
  mmaemu_options early = MMAEMU_OPTIONS_INIT;
  early.profile = "ada";
  early.split = 1;
  early.size = offsetof(mmaemu_options, scheme);
  early.scheme = "beyond its size";
  EXPECT(mmaemu_accumulate(&a, &b, &result, &early) == MMAEMU_OK && out[1] == 1.0F);

  struct {
    mmaemu_options known;
    const char* added;
  } late = {MMAEMU_OPTIONS_INIT, NULL};
  late.known.size = sizeof late;
  late.known.split = 1;
  out[1] = 7.0F;
  EXPECT(mmaemu_accumulate(&a, &b, &result, &late.known) == MMAEMU_OK && out[1] == 1.0F);
  late.added = "set";
  EXPECT(mmaemu_accumulate(&a, &b, &result, &late.known) == MMAEMU_UNSUPPORTED_FEATURE && says("options"));
}

static void callbacks(void) {
  float out[kRows * kColumns];
  const mmaemu_result result = {out, "float32", kRows, kColumns, kColumns, 1};
  int number = 0;
  mmaemu_options options = MMAEMU_OPTIONS_INIT;
  options.profile = "hopper-experimental";
  options.split = 1;
  options.fast = 1;
  options.warn = count_warning;
  options.user = &number;
  EXPECT(mmaemu_scaled_mm(&a, &b, 1, 1, NULL, &result, &options) == MMAEMU_OK);
  EXPECT(number > 0);

  /* A long dot on the model, which is asked after some tens of milliseconds. */
  enum { kLong = 1 << 14, kMany = 1 << 12 };
  static unsigned char codes[kLong];
  static float d[kMany];
  memset(codes, 0x38, sizeof codes);
  const mmaemu_operand same_row = {codes, "e4m3", kMany, kLong, 0, 1};
  mmaemu_preset preset = MMAEMU_PRESET_INIT;
  options.cancelled = cancel;
  number = 1;
  EXPECT(mmaemu_dot(&same_row, &same_row, NULL, &preset, d, &options) == MMAEMU_CANCELLED);
}

/* An RTX 4060 splits K of 64 x 256 x 2048 in 3 for a bfloat16 result, and not for a float32 one. */
static void splits(void) {
  enum { kM = 64, kN = 256, kK = 2048 };
  static unsigned char left[kM * kK];
  static unsigned char right[kN * kK];
  static float decided[kM * kN];
  static float written[kM * kN];
  uint32_t state = 1;
  for (int i = 0; i < kM * kK; ++i) left[i] = (unsigned char)((state = state * 1664525U + 1013904223U) >> 25);
  for (int i = 0; i < kN * kK; ++i)
    right[i] = (unsigned char)((state = state * 1664525U + 1013904223U) >> 26);
  for (int i = 0; i < kM * kK; ++i) left[i] &= 0x77;
  const mmaemu_operand x = {left, "e4m3", kM, kK, kK, 1};
  const mmaemu_operand w = {right, "e4m3", kN, kK, kK, 1};
  const mmaemu_result by_type = {decided, "float32", kM, kN, kN, 1};
  const mmaemu_result by_hand = {written, "float32", kM, kN, kN, 1};
  mmaemu_options options = MMAEMU_OPTIONS_INIT;
  options.profile = "ada";
  options.fast = 1;
  mmaemu_options explicit_split = options;
  explicit_split.split = 3;
  explicit_split.scheme = "pairwise";
  EXPECT(mmaemu_accumulate(&x, &w, &by_hand, &explicit_split) == MMAEMU_OK);
  EXPECT(mmaemu_accumulate(&x, &w, &by_type, &options) == MMAEMU_OK);
  EXPECT(memcmp(decided, written, sizeof decided) != 0);
  options.out_dtype_for_split = "bfloat16";
  EXPECT(mmaemu_accumulate(&x, &w, &by_type, &options) == MMAEMU_OK);
  EXPECT(memcmp(decided, written, sizeof decided) == 0);
  options.out_dtype_for_split = "int8";
  EXPECT(mmaemu_accumulate(&x, &w, &by_type, &options) == MMAEMU_TYPE_ERROR && says("int8"));
}

static void questions(void) {
  mmaemu_split_query query = MMAEMU_SPLIT_QUERY_INIT;
  query.M = 16;
  query.N = 256;
  query.K = 8192;
  mmaemu_options options = MMAEMU_OPTIONS_INIT;
  options.profile = "hopper";
  options.fast = 1;
  int64_t S = -1;
  const char* scheme = NULL;
  char* json = NULL;
  options.split = 4;
  options.scheme = "contiguous";
  EXPECT(mmaemu_resolve_splitk(&query, &options, &S, &scheme, &json) == MMAEMU_OK);
  EXPECT(S == 4 && strcmp(scheme, "contiguous") == 0 && strstr(json, "\"source\": \"explicit\"") != NULL);
  mmaemu_free_text(json);
  options.split = 1;
  options.scheme = NULL;
  EXPECT(mmaemu_resolve_splitk(&query, &options, &S, &scheme, NULL) == MMAEMU_OK);
  EXPECT(S == 1 && strcmp(scheme, "none") == 0);
  /* An RTX 4060 splits this one for a bfloat16 result, not for an FP8 one. */
  query.M = 64;
  query.K = 2048;
  options.split = 0;
  options.profile = "ada";
  query.out_dtype = "bf16";
  EXPECT(mmaemu_resolve_splitk(&query, &options, &S, &scheme, NULL) == MMAEMU_OK && S == 3);
  query.out_dtype = NULL;
  EXPECT(mmaemu_resolve_splitk(&query, &options, &S, &scheme, NULL) == MMAEMU_OK && S == 1);
  options.split = 1;
  query.M = -1;
  EXPECT(mmaemu_resolve_splitk(&query, &options, &S, &scheme, NULL) == MMAEMU_VALUE_ERROR && says("M"));

  mmaemu_explain_request request = MMAEMU_EXPLAIN_REQUEST_INIT;
  request.M = 16;
  request.N = 64;
  request.K = 1920;
  request.device = "cpu";
  EXPECT(mmaemu_explain(&request, &options, &json) == MMAEMU_OK);
  EXPECT(strstr(json, "\"validation\": \"ok\"") != NULL && strstr(json, "\"K\": 1920") != NULL);
  mmaemu_free_text(json);
  request.K = 8;
  EXPECT(mmaemu_explain(&request, &options, &json) == MMAEMU_OK);
  EXPECT(strstr(json, "ReferenceRejectsError") != NULL);
  mmaemu_free_text(json);
  EXPECT(mmaemu_explain(&request, &options, NULL) == MMAEMU_VALUE_ERROR);
  EXPECT(mmaemu_info(-1, &json) == MMAEMU_OK && strstr(json, mmaemu_version()) != NULL);
  mmaemu_free_text(json);

  EXPECT(mmaemu_profile_count() == 8 && strcmp(mmaemu_profile_name(0), "ada") == 0);
  EXPECT(mmaemu_profile_name(8) == NULL && mmaemu_preset_name(mmaemu_preset_count()) == NULL);
  EXPECT(mmaemu_profile_json("ada", &json) == MMAEMU_OK && strstr(json, "\"preset\": \"ada\"") != NULL);
  mmaemu_free_text(json);
  EXPECT(mmaemu_profile_json("", &json) == MMAEMU_KEY_ERROR);
  EXPECT(mmaemu_preset_json("ada", &json) == MMAEMU_OK && strstr(json, "\"nfma\": 16") != NULL);
  mmaemu_free_text(json);
  EXPECT(strcmp(mmaemu_cpu_target_name(mmaemu_cpu_target_count() - 1), "model") == 0);
  EXPECT(mmaemu_cpu_target_name(mmaemu_cpu_target_count()) == NULL);
}

int main(void) {
  fill();
  results();
  refusals();
  other_versions();
  callbacks();
  splits();
  questions();
  printf("%d expectations failed\n", failures);
  return failures == 0 ? 0 : 1;
}
