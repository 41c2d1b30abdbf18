#include "kernels/cpu/numerics.h"

#include <oneapi/dnnl/dnnl.h>

#if defined(TRIREME_X86_LEVELS)
#include <cpuid.h>
#endif
#if defined(TRIREME_X86_LEVELS) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace trireme::cpu {

#if defined(TRIREME_X86_LEVELS)

namespace x86_64_v2 {
extern const Numerics numerics;
}
namespace x86_64_v3 {
extern const Numerics numerics;
}
namespace x86_64_v4 {
extern const Numerics numerics;
}
namespace x86_64_v4_bf16 {
extern const GemmNumerics gemm_numerics;
}
namespace x86_64_v4_amx {
extern const GemmNumerics gemm_numerics;
}

namespace {

/// x86_64_v4 with other products of bf16.
Numerics with_bf16_products(const char* isa, const GemmNumerics& products) {
  Numerics tables = x86_64_v4::numerics;
  tables.isa = isa;
  tables.bf16_gemm = &products;
  return tables;
}

const Numerics& with_pairs() {
  static const Numerics numerics = with_bf16_products("x86_64_v4_bf16", x86_64_v4_bf16::gemm_numerics);
  return numerics;
}

const Numerics& with_tiles() {
  static const Numerics numerics = with_bf16_products("x86_64_v4_amx", x86_64_v4_amx::gemm_numerics);
  return numerics;
}

// Clang 14 has no names for these features. The kernel's permission shows that it saves tile registers.
bool has_amx() {
  constexpr unsigned kFeatures = 7, kBf16 = 1U << 22, kTile = 1U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTile) != 0;
}

// Linux gives a process the use of tile registers on request only. Threads and child processes inherit it.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

struct Supported {
  const Numerics* tables[6] = {};
};

Supported find_supported() {
  __builtin_cpu_init();
  // All processors with AVX2 have F16C, for which Clang has no name here.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  Supported supported;
  const Numerics** next = supported.tables;
  if (v4 && has_amx() && may_use_tiles()) *next++ = &with_tiles();
  if (v4 && __builtin_cpu_supports("avx512bf16")) *next++ = &with_pairs();
  if (v4) *next++ = &x86_64_v4::numerics;
  if (v3) *next++ = &x86_64_v3::numerics;
  *next = &x86_64_v2::numerics;
  return supported;
}

}  // namespace

const Numerics* const* supported_numerics() {
  static const Supported supported = find_supported();
  return supported.tables;
}

namespace {

// oneDNN's instruction sets are bit masks, each including the bits of the sets below.
bool has(dnnl_cpu_isa_t limit, dnnl_cpu_isa_t wanted) {
  return limit == dnnl_cpu_isa_all || (limit & wanted) == wanted;
}

const Numerics& find_newest() {
  const dnnl_cpu_isa_t limit = dnnl_get_effective_cpu_isa();
  for (const Numerics* const* tables = supported_numerics(); *tables != nullptr; ++tables) {
    if (*tables == &with_tiles() && !has(limit, dnnl_cpu_isa_avx512_core_amx)) continue;
    if (*tables == &with_pairs()) {
      // Processors with AMX multiply pairs at half the rate of fp32.
      const bool slow = has_amx() && has(limit, dnnl_cpu_isa_avx512_core_amx);
      if (slow || !has(limit, dnnl_cpu_isa_avx512_core_bf16)) continue;
    }
    if (*tables == &x86_64_v4::numerics && !has(limit, dnnl_cpu_isa_avx512_core)) continue;
    if (*tables == &x86_64_v3::numerics && !has(limit, dnnl_cpu_isa_avx2)) continue;
    return **tables;
  }
  return x86_64_v2::numerics;
}

}  // namespace

const Numerics& numerics() {
  static const Numerics& newest = find_newest();
  return newest;
}

#else

namespace generic {
extern const Numerics numerics;
}

const Numerics* const* supported_numerics() {
  static const Numerics* const kTables[] = {&generic::numerics, nullptr};
  return kTables;
}

const Numerics& numerics() {
  return generic::numerics;
}

#endif

const GemmNumerics& gemm_for(const Numerics& numerics, Element element) {
  return element == Element::kBf16 ? *numerics.bf16_gemm : *numerics.gemm;
}

}  // namespace trireme::cpu
