// parallel.tune_products from the job to its checkpoints, in the emulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "launcher/host/arithmetic.h"
#include "launcher/train/product_measurement.h"
#include "launcher/train/trainer.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/product_measure.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Device kCard{DeviceType::kCuda, 0};

class TunedRun : public ::testing::Test {
 protected:
  TunedRun() {
    config_.model = {.layers = 1, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};
    config_.data.kind = DataKind::kSynthetic;
    config_.train = {.steps = 2, .global_batch = 2, .micro_batch = 2};
    config_.precision.mode = PrecisionMode::kBf16;
    config_.parallel.tune_products = true;
    config_.parallel.threads = 1;
    prefer(2);
  }
  ~TunedRun() override { emulation::product_algorithms().us = {}; }

  // Makes `algorithm` the fastest.
  static void prefer(int algorithm) {
    emulation::product_algorithms().us = [algorithm](int i) { return i == algorithm ? 200.0 : 300.0; };
  }

  // Trains to train.steps and returns the log.
  std::string train(const std::function<void(RunOptions&)>& change = {}) {
    ::testing::internal::CaptureStdout();
    try {
      const StopRequest stop;
      RunOptions options;
      options.config = config_;
      options.blocks = build_blocks(config_.model);
      options.out = out_;
      options.comm = LocalWorld(1).communicator(0);
      options.device = kCard;
      options.arithmetic = arithmetic_of(kCard);
      if (change) change(options);
      Trainer(start_run(std::move(options)), stop).run();
    } catch (...) {
      (void)::testing::internal::GetCapturedStdout();
      throw;
    }
    return ::testing::internal::GetCapturedStdout();
  }

  MeasuredProducts in_checkpoint(int step) const {
    return read_run_state(open_checkpoint_or_run(out_ / fmt::format("checkpoints/step-{:06}", step)))
        .products;
  }
  MeasuredProducts in_folder() const { return read_products(out_ / "products.json"); }
  static std::set<int> candidates_of(const ProductTable& table) {
    std::set<int> all;
    for (const auto& [product, choice] : table) all.insert(choice.candidate);
    return all;
  }
  PlannedJob job(int num_ranks = 1) const {
    return planned_job(config_, build_blocks(config_.model), num_ranks);
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path out_ = folder_ / "out";
  JobConfig config_;
};

TEST_F(TunedRun, ChoicesAreInTheFolderAndInCheckpoints) {
  const std::string said = train();
  const MeasuredProducts products = in_folder();
  EXPECT_GT(products.choices.size(), 8u);
  EXPECT_EQ(candidates_of(products.choices), std::set<int>{2});
  EXPECT_EQ(products.facts, product_facts(arithmetic_of(kCard)));
  EXPECT_TRUE(products.facts.contains("GPU") && products.facts.contains("cuBLASLt"));
  EXPECT_EQ(in_checkpoint(2), products);
  EXPECT_THAT(said, HasSubstr(fmt::format("products.json: {} products measured, {} of them faster than the "
                                          "heuristics' choice, by up to 33.3 %",
                                          products.choices.size(), products.choices.size())));
  EXPECT_THAT(said, Not(HasSubstr("no measured choice"))) << "a step makes products that were not measured";
}

TEST_F(TunedRun, ProductsOfTensorChunksAreMeasured) {
  config_.model.tensor_chunks = 2;
  EXPECT_THAT(train(), Not(HasSubstr("no measured choice")));
  EXPECT_EQ(candidates_of(in_folder().choices), std::set<int>{2});
}

// Later timings do not count. The step uses the checkpoint's choices.
TEST_F(TunedRun, AResumedRunGoesOnWithThem) {
  train();
  const MeasuredProducts products = in_folder();
  std::filesystem::remove(out_ / "products.json");
  prefer(1);
  config_.train.steps = 4;
  const auto before = emulation::product_algorithms().runs[1].load();
  const std::string said = train();
  EXPECT_THAT(said, AllOf(Not(HasSubstr("another card")), Not(HasSubstr("no measured choice"))));
  EXPECT_EQ(in_folder(), products);
  EXPECT_EQ(in_checkpoint(4), products);
  // The rate of products is measured separately and uses the heuristics' first algorithm.
  EXPECT_EQ(emulation::product_algorithms().runs[1], before);
}

TEST_F(TunedRun, AFreshRunReadsTheFoldersTable) {
  std::filesystem::create_directories(out_);
  MeasuredProducts known{.facts = product_facts(arithmetic_of(kCard)),
                         .choices = measure_products(job(), {.device = kCard, .threads = 1, .known = {}})};
  write_products(out_ / "products.json", known);
  prefer(1);
  train();
  EXPECT_EQ(in_folder(), known);
}

TEST_F(TunedRun, AnotherCardMeasuresAgain) {
  train();
  prefer(1);
  config_.train.steps = 3;
  const std::string said = train([](RunOptions& options) { options.arithmetic["GPU"] = "another"; });
  EXPECT_THAT(said, HasSubstr("were measured with another card or library (GPU emulated, sm_90, 1 "
                              "multiprocessors; cuBLASLt 0.0.0, now GPU another; cuBLASLt 0.0.0); they are "
                              "measured again: last bits may differ"));
  EXPECT_EQ(candidates_of(in_folder().choices), std::set<int>{1});
  EXPECT_EQ(in_folder().facts.at("GPU"), "another");
}

TEST_F(TunedRun, TheKeyThatComesOrGoesIsSaid) {
  train();
  config_.train.steps = 3;
  config_.parallel.tune_products = false;
  EXPECT_THAT(train(), HasSubstr("is of a run with parallel.tune_products on GPU emulated, sm_90"));
  EXPECT_EQ(in_checkpoint(3), MeasuredProducts());
  config_.train.steps = 4;
  config_.parallel.tune_products = true;
  EXPECT_THAT(train(), HasSubstr("is of a run without it: last bits may differ"));
}

TEST_F(TunedRun, NoEffectOnCpus) {
  const std::string said = train([](RunOptions& options) {
    options.device = {DeviceType::kCpu, 0};
    options.arithmetic = arithmetic_of(options.device);
  });
  EXPECT_THAT(said, HasSubstr("parallel.tune_products = true has no effect on cpu"));
  EXPECT_FALSE(std::filesystem::exists(out_ / "products.json"));
}

TEST_F(TunedRun, ADamagedTableIsAnError) {
  std::filesystem::create_directories(out_);
  testing::write_file(out_ / "products.json", "{\"facts\": {}");
  EXPECT_THAT(error_message([&] { train(); }),
              AllOf(HasSubstr("products.json is damaged, or is not a table of measured products"),
                    HasSubstr("Remove it to measure them again")));
}

// The other ranks do not query their library, and get the same table.
TEST_F(TunedRun, OneRankMeasuresForAll) {
  std::filesystem::create_directories(out_);
  std::array<MeasuredProducts, 2> products;
  std::array<long, 2> asked{};
  config_.train.global_batch = 4;
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    RunOptions options;
    options.config = config_;
    options.blocks = build_blocks(config_.model);
    options.out = out_;
    options.comm = comm;
    options.device = kCard;
    options.arithmetic = arithmetic_of(kCard);
    const OutputFolder out{out_};
    TrainingRun run{.options = std::move(options), .out = out, .store = CheckpointStore(out.checkpoints())};
    const long before = emulation::counts().choices;
    choose_products(run);
    const auto rank = static_cast<std::size_t>(comm->rank());
    asked.at(rank) = emulation::counts().choices - before;
    products.at(rank) = run.products;
    EXPECT_EQ(*run.engine_options.products, run.products.choices);
  });
  EXPECT_GT(asked[0], 0);
  EXPECT_EQ(asked[1], 0);
  EXPECT_FALSE(products[0].choices.empty());
  EXPECT_EQ(products[0], products[1]);
}

// The products of all stages are the products of the whole model.
TEST_F(TunedRun, StagesHaveTheProductsOfTheModel) {
  config_.model.layers = 2;
  const auto products_of_ranks = [this](int num_ranks) {
    std::set<Product> all;
    for (const auto& [measured, choice] :
         measure_products(job(num_ranks), {.device = kCard, .threads = 1, .known = {}})) {
      Product product = measured;
      product.alignment = 64;  // a tied parameter has another address on another stage
      all.insert(product);
    }
    return all;
  };
  const std::set<Product> whole = products_of_ranks(1);
  config_.parallel.layout.pipeline = 2;
  EXPECT_EQ(products_of_ranks(2), whole);
}

}  // namespace
}  // namespace trireme
