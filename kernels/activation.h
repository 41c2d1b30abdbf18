// Activation functions that a matrix product or an elementwise op can apply to its result.
#pragma once

#include <cstdint>

namespace trireme {

enum class Activation : std::uint8_t {
  kNone,
  kGeluTanh,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as in GPT-2
  kGelu,      // x Phi(x) = 0.5 x (1 + erf(x / sqrt(2))), exact (Hendrycks & Gimpel 2016)
  kTanh,
  kSilu,  // x / (1 + e^-x), also called swish (Elfwing et al. 2018)
};

}  // namespace trireme
