#include "tests/kernels/meta_run.h"

#include <algorithm>

namespace trireme::testing {
namespace {

template <class Args>
bool was_called = false;

// A meta backend whose ops record their calls; like meta's own, they compute nothing.
const Backend& noting_meta() {
  static const Backend table = [] {
    Backend noting = meta_backend();
    noting.ops = OpTable<AllOps>::filled_by([]<class Args>(Op<Args>) -> Kernel<Args> {
      return [](const KernelContext&, const Args&) { was_called<Args> = true; };
    });
    return noting;
  }();
  return table;
}

}  // namespace

void expect_meta_counts(const std::function<Outputs(const Rig&)>& run, const Outputs& outputs,
                        const MemoryStats& on_device) {
  SCOPED_TRACE("on meta");
  const Rig meta(DeviceType::kMeta, 1, &noting_meta());
  const Outputs nothing = run(meta);
  ASSERT_EQ(nothing.size(), outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(nothing[i].size(), outputs[i].size()) << "output " << i;
    EXPECT_TRUE(std::all_of(nothing[i].begin(), nothing[i].end(), [](float x) { return x == 0.0f; }))
        << "output " << i << " was computed";
  }
  const MemoryStats counted = meta.allocator().stats();
  EXPECT_EQ(counted.peak_total, on_device.peak_total);
  for (int i = 0; i < kNumMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (category == MemoryCategory::kWorkspace) continue;
    EXPECT_EQ(counted.peak[category], on_device.peak[category]) << name(category);
  }
}

std::vector<std::string> ops_without_a_case() {
  std::vector<std::string> names;
  AllOps::for_each([&]<class Args>(Op<Args>) {
    if (!was_called<Args>) names.emplace_back(Args::kName);
  });
  return names;
}

}  // namespace trireme::testing
