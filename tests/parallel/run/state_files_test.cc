// Files of a checkpoint: on every layout the same bytes as one rank would write, from the state and from a
// snapshot, regardless of later training, in predicted memory.
#include "parallel/run/state_files.h"

#include <mutex>

#include "models/resnet.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "tests/support/pipeline_layout.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_resnet.h"

namespace trireme::testing {
namespace {

const std::atomic<bool> kGoesOn = false;
constexpr auto kSnapshot = StateFiles::State::kSnapshot;

struct Job {
  PipelineLayout layout;
  float ema = 0.0f;
  std::vector<std::string> frozen = {};

  EngineOptions options() const {
    EngineOptions options = layout.options();
    options.ema = ema;
    options.rules.frozen = frozen;
    options.snapshots = true;
    return options;
  }
};

/// Checks that both folders have the same names and bytes, as reported by the writers. Each file is also the
/// one that a single writer makes of its tensors.
void expect_equal_files(const TemporaryFolder& saved, const std::vector<CheckpointFile>& of_save,
                        const TemporaryFolder& written, const std::vector<CheckpointFile>& of_snapshot,
                        const std::string& where) {
  EXPECT_EQ(of_snapshot, of_save) << where;
  EXPECT_EQ(written.num_entries(), std::ssize(of_save)) << where;
  EXPECT_EQ(saved.num_entries(), std::ssize(of_save)) << where;
  for (const CheckpointFile& file : of_save) {
    EXPECT_TRUE(read_file(saved / file.name) == read_file(written / file.name)) << where << ", " << file.name;
    const SafetensorsReader reader(saved / file.name);
    std::vector<SafetensorsEntry> entries;
    for (const SafetensorsTensor& tensor : reader.tensors())
      entries.push_back({tensor.name, tensor.dtype, tensor.shape});
    const TemporaryFolder streamed;
    SafetensorsWriter writer(streamed / file.name, entries, kFileMetadata);
    for (const SafetensorsTensor& tensor : reader.tensors()) writer.append(tensor.data);
    EXPECT_EQ(writer.commit(), file) << where;
  }
}

/// Saves and takes a snapshot after a step; writes the snapshot after another step.
void save_twice(Engine& engine, const TemporaryFolder& saved, const TemporaryFolder& written,
                const std::function<void()>& step, const std::string& where) {
  Communicator& comm = engine.communicator();
  const StateFiles files(engine);
  step();
  const std::vector<CheckpointFile> of_save = save_state(engine, saved.path());
  engine.snapshot()->take();
  step();
  if (comm.rank() == 0) files.make(written.path());
  comm.barrier();
  files.write(written.path(), kSnapshot, kGoesOn);
  comm.barrier();
  const std::vector<std::uint64_t> hashes = files.hash(written.path());
  const auto all = comm.all_gather_values(std::span<const std::uint64_t>(hashes));
  if (comm.rank() == 0) expect_equal_files(saved, of_save, written, files.describe(all), where);
}

void expect_equal_files(const Job& job) {
  const TemporaryFolder saved, written;
  const PipelineLayout& layout = job.layout;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_gpt(layout.model()), comm, job.options());
    save_twice(
        engine, saved, written, [&] { train(engine, layout, engine.steps_done() + 1); }, layout.to_string());
  });
}

TEST(StateFiles, HaveTheBytesOfASaveOnEveryLayout) {
  for (const int zero : {0, 1, 2, 3}) expect_equal_files({{.data = 3, .zero = zero, .global_batch = 12}});
  expect_equal_files({});
  expect_equal_files({{.stages = 2, .data = 2, .zero = 1}});
  expect_equal_files({{.stages = 3, .data = 1, .precision = Precision(PrecisionMode::kBf16)}});
  expect_equal_files({{.data = 2, .precision = Precision(PrecisionMode::kFp8)}});
}

TEST(StateFiles, HaveAveragesAndFrozenParameters) {
  for (const int zero : {0, 2}) {
    expect_equal_files({.layout = {.data = 2, .zero = zero}, .ema = 0.75f, .frozen = {"blocks.1*"}});
  }
}

TEST(StateFiles, HaveTensorChunks) {
  for (const int data : {1, 2}) {
    Job job{.layout = {.stages = 2, .data = data, .zero = data - 1, .tensor = 2}};
    job.layout.gpt.heads = 4;
    job.layout.gpt.tensor_chunks = 4;
    expect_equal_files(job);
  }
}

TEST(StateFiles, HaveRunningStatistics) {
  const ResNetConfig config = tiny_resnet_config();
  for (const int stages : {1, 2}) {
    const TemporaryFolder saved, written;
    run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_resnet(config), comm,
                    {.global_batch = 4,
                     .micro_batch = 2,
                     .layout = {.pipeline = stages},
                     .sample = SampleSpec{.input = {kTinyPixels, kTinyPixels, 3},
                                          .input_dtype = DType::kFloat32,
                                          .target = {}},
                     .snapshots = true});
      const auto step = [&] {
        engine.step(image_source(kTinyPixels, config.classes, engine.steps_done() * 4), 4, 1e-2);
      };
      save_twice(engine, saved, written, step, fmt::format("{} stages", stages));
    });
  }
}

TEST(StateFiles, TakeTheMemoryThatIsPredicted) {
  for (const PipelineLayout& layout : std::vector<PipelineLayout>{{},
                                                                  {.data = 2},
                                                                  {.data = 2, .zero = 3},
                                                                  {.stages = 2, .data = 2},
                                                                  {.data = 3, .global_batch = 12}}) {
    Job job{.layout = layout, .ema = 0.5f};
    const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
    std::mutex mutex;
    run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(blocks, comm, job.options());
      StepResult measured = train(engine, layout, 1);
      engine.snapshot()->take();
      const EngineOptions options = job.options();
      EngineOptions without = options;
      without.snapshots = false;
      const auto predict = [&](const EngineOptions& with) {
        return predict_step(blocks, with, *options.sample, layout.ranks(), comm->rank());
      };
      const StepPrediction predicted = predict(options), less = predict(without);
      measured.memory.peak[MemoryCategory::kWorkspace] = 0;
      const std::lock_guard lock(mutex);
      EXPECT_EQ(measured.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
      EXPECT_EQ(measured.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
      EXPECT_EQ(predicted.memory.peak_total - less.memory.peak_total, engine.snapshot()->size_bytes());
      EXPECT_EQ(predicted.state_bytes(), less.state_bytes()) << layout.to_string();
      // Masters, two moments and averages: 16 bytes per element, shared by the data ranks, except for
      // padding.
      std::int64_t elems = 0;
      for (int g = 0; g < static_cast<int>(engine.layout().groups.size()); ++g) {
        const std::int64_t whole = engine.layout().groups[static_cast<std::size_t>(g)].num_elems;
        if (engine.parameters().owns(g)) elems += Sharding{.ranks = layout.data}.piece(whole);
      }
      EXPECT_EQ(engine.snapshot()->size_bytes(), 16 * elems) << layout.to_string();
    });
  }
}

TEST(StateFiles, ABitThatFlipsInTheCopyIsFound) {
  const TemporaryFolder folder;
  Job job;
  Engine engine(build_gpt(job.layout.model()), LocalWorld(1).communicator(0), job.options());
  StateFiles files(engine);
  engine.snapshot()->take();
  files.note();
  files.make(folder.path());
  files.write(folder.path(), kSnapshot, kGoesOn);
  const StateSnapshot::Piece piece = engine.snapshot()->piece(1, 0);  // a moment of the optimizer
  auto* word = reinterpret_cast<std::uint32_t*>(const_cast<float*>(&piece.values[77]));
  *word ^= 1u << 9;
  const std::string message = message_of([&] { files.write(folder.path(), kSnapshot, kGoesOn); });
  EXPECT_NE(message.find("silent corruption: the copy of '" + engine.layout().groups[1].name + "'"),
            std::string::npos)
      << message;
  *word ^= 1u << 9;
  files.write(folder.path(), kSnapshot, kGoesOn);
}

TEST(StateFiles, ACancelledWriteEndsEarly) {
  const TemporaryFolder folder;
  Job job;
  Engine engine(build_gpt(job.layout.model()), LocalWorld(1).communicator(0), job.options());
  const StateFiles files(engine);
  engine.snapshot()->take();
  files.make(folder.path());
  const std::string empty = read_file(folder / kModelFile);
  const std::atomic<bool> cancelled = true;
  files.write(folder.path(), kSnapshot, cancelled);
  EXPECT_EQ(read_file(folder / kModelFile), empty);
  files.write(folder.path(), kSnapshot, kGoesOn);
  EXPECT_NE(read_file(folder / kModelFile), empty);
}

TEST(StateFiles, AFailureOfARankIsAnErrorOnAllRanks) {
  const TemporaryFolder folder;
  const PipelineLayout layout{.data = 3, .zero = 1, .global_batch = 12};
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    const Engine engine(build_gpt(layout.model()), comm, layout.options());
    const std::string message = message_of([&] { save_state(engine, folder / "absent"); });
    const std::string expected = comm->rank() == 0 ? "absent" : "rank 0 could not write its part";
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  });
}

}  // namespace
}  // namespace trireme::testing
