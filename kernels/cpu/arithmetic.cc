// Reports the facts that decide the last bits of results on this machine.
#include <fmt/core.h>
#include <oneapi/dnnl/dnnl.h>

#include <string>
#include <utility>

#include "kernels/cpu/numerics.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

// In the spelling of ONEDNN_MAX_CPU_ISA.
std::string isa_name() {
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  for (const auto& [value, text] : {std::pair{dnnl_cpu_isa_all, "ALL"},
                                    {dnnl_cpu_isa_sse41, "SSE41"},
                                    {dnnl_cpu_isa_avx, "AVX"},
                                    {dnnl_cpu_isa_avx2, "AVX2"},
                                    {dnnl_cpu_isa_avx2_vnni, "AVX2_VNNI"},
                                    {dnnl_cpu_isa_avx512_core, "AVX512_CORE"},
                                    {dnnl_cpu_isa_avx512_core_vnni, "AVX512_CORE_VNNI"},
                                    {dnnl_cpu_isa_avx512_core_bf16, "AVX512_CORE_BF16"},
                                    {dnnl_cpu_isa_avx512_core_amx, "AVX512_CORE_AMX"}}) {
    if (isa == value) return text;
  }
  return fmt::format("{:#x}", static_cast<unsigned>(isa));
}

// The CPU vendor. GELU starts from an estimate whose last bits differ by vendor: see [Note: instruction sets]
// in numerics.h.
std::string maker() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("intel")) return "Intel";
  if (__builtin_cpu_is("amd")) return "AMD";
#endif
  return "unknown";
}

}  // namespace

std::map<std::string, std::string> arithmetic() {
  const dnnl_version_t& version = *dnnl_version();
  const std::string isa = numerics().isa;
  std::map<std::string, std::string> facts = {
      {"instruction set", isa},
      {"oneDNN", fmt::format("{}.{}.{} {}", version.major, version.minor, version.patch, version.hash)},
      {"oneDNN's instruction set", isa_name()}};
  if (isa.starts_with("x86_64_v4")) facts["processor's maker"] = maker();
  return facts;
}

}  // namespace trireme::cpu
