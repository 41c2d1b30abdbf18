// The switches in which decoders of one architecture differ: see the table in models/README.md.
#pragma once

#include <cstdint>

namespace trireme {

/// The norms of a residual branch: norm(x) as its input, norm(branch) as its output, or both.
enum class NormPosition : std::uint8_t { kBefore, kAfter, kBoth };

/// RMS norms of queries and keys: none, of each head with weights that all heads share, or of all heads as
/// one vector.
enum class QkNorm : std::uint8_t { kNone, kHead, kWhole };

/// The activation of the MLP's gate: SiLU, or GELU with tanh.
enum class MlpGate : std::uint8_t { kSilu, kGelu };

}  // namespace trireme
