// Layouts with different fields but the same effect.
#pragma once

#include "parallel/foresee/layout_search.h"

namespace trireme {

/// True for layouts that differ only in recompute and in sharing with data ranks, without effect. For
/// example, a model may have nothing to recompute selectively, and ZeRO-2 has nothing to shard if gradients
/// are kept whole.
bool are_twins(const FoundLayout& a, const FoundLayout& b);

/// For twins: true if `a` recomputes and shards less than `b`.
bool is_simpler(const Layout& a, const Layout& b);

}  // namespace trireme
