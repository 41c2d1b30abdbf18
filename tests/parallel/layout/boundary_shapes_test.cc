#include "parallel/layout/boundary_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/foresee/predict.h"
#include "parallel/layout/block_work.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

enum class Reads { kByDevice, kData, kView };

// Reads its first element, as code of an embedding program may: on every device, or only if there are values.
class FirstElementBlock final : public Block {
 public:
  FirstElementBlock(std::string name, Reads reads) : Block(std::move(name)), reads_(reads) {}

  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override {
    const Tensor& x = input.empty() ? batch.inputs : input.front();
    const bool has_values = traits(x.device().type).computes;
    if (reads_ == Reads::kData) (void)*static_cast<const float*>(x.data());
    if (reads_ == Reads::kView) (void)*x.view().as<float>();
    if (reads_ == Reads::kByDevice && has_values) (void)*static_cast<const float*>(x.data());
    return {ctx.zeros(x.shape())};
  }

 private:
  const Reads reads_;
};

const SampleSpec kSample{.input = {4}, .input_dtype = DType::kFloat32, .target = {1}};

BlockList blocks_where_the_second(Reads reads) {
  BlockList blocks;
  blocks.push_back(std::make_unique<FirstElementBlock>("first", Reads::kByDevice));
  blocks.push_back(std::make_unique<FirstElementBlock>("reader", reads));
  blocks.push_back(std::make_unique<FirstElementBlock>("last", Reads::kByDevice));
  return blocks;
}

std::string error_of_shapes(const BlockList& blocks) {
  return testing::message_of(
      [&] { (void)BoundaryShapes(blocks, Precision(), kSample).of(1, {.num_samples = 2}); });
}

std::string error_of_prediction(Reads reads, int ranks) {
  EngineOptions options{.global_batch = 4, .micro_batch = 2, .sample = kSample};
  options.layout.pipeline = ranks;
  const auto blocks = std::make_shared<const BlockList>(blocks_where_the_second(reads));
  return testing::message_of([&] { (void)predict_step(blocks, options, kSample, ranks, 0); });
}

TEST(BoundaryShapes, ABlockThatReadsElementsOnMetaIsNamedWithWhatToDo) {
  const auto names_block_and_remedy =
      AllOf(HasSubstr("running block 'reader' for its shapes: this tensor has no values"), HasSubstr("fp32"),
            HasSubstr("decide by shapes alone"));
  for (const Reads reads : {Reads::kData, Reads::kView}) {
    const BlockList blocks = blocks_where_the_second(reads);
    EXPECT_THAT(error_of_shapes(blocks), names_block_and_remedy);
    EXPECT_THAT(testing::message_of([&] { (void)count_block_work(blocks, kSample); }),
                names_block_and_remedy);
    EXPECT_THAT(error_of_prediction(reads, 2), names_block_and_remedy);
    EXPECT_THAT(error_of_prediction(reads, 1),
                AllOf(HasSubstr("of block 'reader': this tensor has no values"), HasSubstr("shapes alone")));
  }
}

TEST(BoundaryShapes, ABlockMayReadElementsWhereThereAreAny) {
  const BlockList blocks = blocks_where_the_second(Reads::kByDevice);
  BoundaryShapes shapes(blocks, Precision(), kSample);
  const std::vector<TensorSpec> expected{{.shape = {2, 4}}};
  EXPECT_EQ(shapes.of(0, {.num_samples = 2}), expected);
  EXPECT_EQ(shapes.of(1, {.num_samples = 2}), expected);
  EXPECT_EQ(count_block_work(blocks, kSample), (std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace trireme
