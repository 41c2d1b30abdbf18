// A table of kernels keyed by the type of their arguments. Each op is identified by its struct of arguments.
// The list of these types defines the ops, and backends, the meta backend and the tests iterate over it.
#pragma once

#include "kernels/backend_types.h"

namespace trireme {

/// Null where the backend lacks the op.
template <class Args>
using Kernel = void (*)(const KernelContext& exec, const Args& args);

/// A tag for an op, for iteration without a call.
template <class A>
struct Op {
  using Args = A;
};

template <class... Args>
struct OpList {
  /// Calls visit(Op<Args>{}) for each op.
  template <class Visit>
  static constexpr void for_each(Visit visit) {
    (visit(Op<Args>{}), ...);
  }
};

template <class... A>
constexpr OpList<A...> joined(OpList<A...> all) {
  return all;
}
template <class... A, class... B, class... Rest>
constexpr auto joined(OpList<A...>, OpList<B...>, Rest... rest) {
  return joined(OpList<A..., B...>{}, rest...);
}

template <class List>
class OpTable;

template <class... Listed>
class OpTable<OpList<Listed...>> {
 public:
  /// The table of the kernels kernel_of(Op<Args>{}).
  template <class KernelOf>
  static constexpr OpTable filled_by(KernelOf kernel_of) {
    OpTable table;
    (table.set<Listed>(kernel_of(Op<Listed>{})), ...);
    return table;
  }
  template <class Args>
  constexpr Kernel<Args> get() const {
    return Slot<Args>(slots_).kernel;
  }
  template <class Args>
  constexpr void set(Kernel<Args> kernel) {
    static_cast<Slot<Args>&>(slots_).kernel = kernel;
  }

 private:
  template <class Args>
  struct Slot {
    Kernel<Args> kernel = nullptr;
  };
  struct Slots : Slot<Listed>... {};
  Slots slots_;
};

}  // namespace trireme
