// The floating-point environment of the calling thread for the length of a scope: rounding as asked, no
// flushing of subnormals, no traps. The caller's state, its sticky flags included, comes back on every path.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace mmaemu::cpu {

enum class Rounding : std::uint8_t { nearest, toward_zero };

class ScopedFloatEnvironment {
 public:
  ScopedFloatEnvironment(const ScopedFloatEnvironment&) = delete;
  ScopedFloatEnvironment& operator=(const ScopedFloatEnvironment&) = delete;

#if defined(__x86_64__)
  // MXCSR: bits 0-5 flags, 6 DAZ, 7-12 exception masks, 13-14 rounding, 15 FTZ.
  explicit ScopedFloatEnvironment(Rounding rounding) : caller_(_mm_getcsr()) {
    _mm_setcsr(rounding == Rounding::toward_zero ? 0x7F80U : 0x1F80U);
  }
  ~ScopedFloatEnvironment() {
    _mm_setcsr(caller_);
  }

 private:
  std::uint32_t caller_;
#elif defined(__aarch64__)
  // FPCR: bits 22-23 rounding, 24 FZ, 25 DN, 8-15 traps, 0-2 the alternate modes of newer cores: all zero but
  // the rounding.
  explicit ScopedFloatEnvironment(Rounding rounding) {
    asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control_), "=r"(status_));
    const std::uint64_t control = rounding == Rounding::toward_zero ? std::uint64_t{3} << 22 : 0;
    asm volatile("msr fpcr, %0" : : "r"(control) : "memory");
  }
  ~ScopedFloatEnvironment() {
    asm volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(control_), "r"(status_) : "memory");
  }

 private:
  std::uint64_t control_ = 0;
  std::uint64_t status_ = 0;
#else
  explicit ScopedFloatEnvironment(Rounding rounding) {
    std::fegetenv(&caller_);
    std::fesetenv(FE_DFL_ENV);
    std::fesetround(rounding == Rounding::toward_zero ? FE_TOWARDZERO : FE_TONEAREST);
  }
  ~ScopedFloatEnvironment() {
    std::fesetenv(&caller_);
  }

 private:
  std::fenv_t caller_{};
#endif
};

}  // namespace mmaemu::cpu
