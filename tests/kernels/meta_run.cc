#include "tests/kernels/meta_run.h"

#include <algorithm>
#include <array>

namespace trireme::testing {
namespace {

struct Entry {
  const char* name;
  void (*install)(Backend& table);
  const bool* called;
};

template <auto kMember>
bool was_called = false;

template <auto kMember, class Args>
void note(const KernelContext&, const Args&) {
  was_called<kMember> = true;
}

template <auto kMember, class Args>
constexpr void (*noting(void (*Backend::*)(const KernelContext&, const Args&)))(const KernelContext&,
                                                                                const Args&) {
  return note<kMember, Args>;
}

template <auto kMember>
constexpr Entry entry(const char* name) {
  return {name, [](Backend& table) { table.*kMember = noting<kMember>(kMember); }, &was_called<kMember>};
}

// Every op of the table.
constexpr std::array kEntries{entry<&Backend::matmul>("matmul"),
                              entry<&Backend::column_sum>("column_sum"),
                              entry<&Backend::activation_bwd>("activation_bwd"),
                              entry<&Backend::layer_norm_fwd>("layer_norm_fwd"),
                              entry<&Backend::layer_norm_bwd>("layer_norm_bwd"),
                              entry<&Backend::attention_fwd>("attention_fwd"),
                              entry<&Backend::attention_bwd>("attention_bwd"),
                              entry<&Backend::embedding_fwd>("embedding_fwd"),
                              entry<&Backend::embedding_bwd>("embedding_bwd"),
                              entry<&Backend::dropout>("dropout"),
                              entry<&Backend::softmax_cross_entropy>("softmax_cross_entropy"),
                              entry<&Backend::conv2d_fwd>("conv2d_fwd"),
                              entry<&Backend::conv2d_bwd_data>("conv2d_bwd_data"),
                              entry<&Backend::conv2d_bwd_weight>("conv2d_bwd_weight"),
                              entry<&Backend::batch_norm_fwd>("batch_norm_fwd"),
                              entry<&Backend::batch_norm_infer>("batch_norm_infer"),
                              entry<&Backend::batch_norm_bwd>("batch_norm_bwd"),
                              entry<&Backend::relu>("relu"),
                              entry<&Backend::relu_bwd>("relu_bwd"),
                              entry<&Backend::max_pool_fwd>("max_pool_fwd"),
                              entry<&Backend::max_pool_bwd>("max_pool_bwd"),
                              entry<&Backend::avg_pool_fwd>("avg_pool_fwd"),
                              entry<&Backend::avg_pool_bwd>("avg_pool_bwd"),
                              entry<&Backend::move_average>("move_average"),
                              entry<&Backend::add>("add"),
                              entry<&Backend::cast>("cast"),
                              entry<&Backend::scale>("scale"),
                              entry<&Backend::squared_norm_blocks>("squared_norm_blocks"),
                              entry<&Backend::clip_coefficient>("clip_coefficient"),
                              entry<&Backend::update_loss_scale>("update_loss_scale"),
                              entry<&Backend::adamw>("adamw"),
                              entry<&Backend::sgd>("sgd")};

// Ops are the last entries of the table, so one that the list lacks does not compile.
static_assert(kEntries.size() * sizeof(void*) == sizeof(Backend) - offsetof(Backend, matmul),
              "an op of kernels/backend.h is missing above");

// The ops of meta that note their calls; they still do nothing, as meta's own.
const Backend& noting_meta() {
  static const Backend table = [] {
    Backend noting = meta_backend();
    for (const Entry& one : kEntries) one.install(noting);
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
  for (const Entry& one : kEntries) {
    if (!*one.called) names.emplace_back(one.name);
  }
  return names;
}

}  // namespace trireme::testing
