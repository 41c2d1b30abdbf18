// Layouts that a search finds apart and that are one to its reader.
#pragma once

#include "parallel/foresee/layout_search.h"

namespace trireme {

/// True of layouts that recompute or share with data ranks in another way, to no effect: a model may have
/// nothing to recompute selectively, and gradients that are kept whole all the same leave ZeRO-2 nothing.
bool are_twins(const FoundLayout& a, const FoundLayout& b);

/// Of twins: true if `a` recomputes and shares less than `b`.
bool is_simpler(const Layout& a, const Layout& b);

}  // namespace trireme
