#include "kernels/cpu/isa/convert.h"
#include "kernels/cpu/isa/tables.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

void read(const void* x, Element element, float* y, std::int64_t n) {
  read_row(x, element, y, n);
}

void write(const float* x, Element element, void* y, std::int64_t n) {
  write_row(x, element, y, n);
}

}  // namespace

const CastNumerics cast_numerics{.read = read, .write = write};

}  // namespace trireme::cpu::TRIREME_ISA
