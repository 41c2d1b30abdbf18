// A file written in parts has the bytes and checksums of a streamed file.
#include "runtime/checkpoint/safetensors_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <numeric>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

const std::vector<SafetensorsEntry> kTensors = {
    {"w", "F32", {3000}}, {"none", "F32", {0}}, {"b", "F32", {2, 5}}};

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(SafetensorsParts, AreTheFileThatOneWriterMakes) {
  const testing::TemporaryFolder folder;
  const std::vector<float> w = numbers(3000, 1.0f), b = numbers(10, -5.0f);
  SafetensorsWriter writer(folder / "whole", kTensors, {{"format", "test"}});
  writer.append(w);
  writer.append(b);
  writer.commit();

  const std::filesystem::path path = folder / "parts";
  const SafetensorsLayout layout(path, kTensors, {{"format", "test"}});
  make_safetensors(path, layout);
  FilePart first(path), second(path);
  second.write(layout.begin(2), std::as_bytes(std::span(b)));
  second.write(layout.begin(0) + 2048 * sizeof(float), std::as_bytes(std::span(w).subspan(2048)));
  first.write(layout.begin(0), std::as_bytes(std::span(w).first(2048)));
  first.sync();
  second.sync();
  EXPECT_EQ(testing::read_file(path), testing::read_file(folder / "whole"));
}

// Tensors begin and end anywhere in the blocks and in the shares of the file.
TEST(SafetensorsParts, HashesOfSharesAddUpToThoseOfTheFile) {
  const testing::TemporaryFolder folder;
  const std::vector<SafetensorsEntry> tensors = {{"first", "F32", {90'001}}, {"small", "F32", {3}},
                                                 {"none", "F32", {0}},       {"block", "F32", {1024}},
                                                 {"long", "F32", {300'000}}, {"last", "F32", {7}}};
  SafetensorsWriter writer(folder / "file", tensors, {{"format", "test"}});
  for (const SafetensorsEntry& tensor : tensors)
    writer.append(numbers(static_cast<std::size_t>(tensor.shape[0]), 2.0f));
  const CheckpointFile whole = writer.commit();
  const SafetensorsLayout layout("file", tensors, {{"format", "test"}});
  for (const int shares : {1, 2, 3, 7, 100}) {
    std::vector<std::uint64_t> sums(1 + tensors.size());
    for (int share = 0; share < shares; ++share) {
      const auto hashes = hash_share(folder / "file", layout, {.index = share, .count = shares});
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += hashes.at(i);
    }
    EXPECT_EQ(describe_safetensors("file", layout, tensors, sums), whole) << shares;
  }
  std::filesystem::resize_file(folder / "file", 100);
  EXPECT_THAT(testing::message_of([&] { hash_share(folder / "file", layout, {}); }),
              HasSubstr("has 100 bytes instead of"));
}

TEST(SafetensorsParts, AFileThatCannotBeWrittenIsNamed) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder / "parts";
  const SafetensorsLayout layout(path, kTensors, {});
  EXPECT_THAT(testing::message_of([&] { FilePart{path}; }),
              HasSubstr("cannot open " + path.string() + ": No such file"));
  make_safetensors(path, layout);
  EXPECT_THAT(testing::message_of([&] { make_safetensors(path, layout); }), HasSubstr("File exists"));

  // A file size limit simulates a full disk.
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<float> values = numbers(1000, 0.0f);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  FilePart part(path);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string wrote = testing::message_of([&] { part.write(1000, std::as_bytes(std::span(values))); });
  const std::string made = testing::message_of([&] { make_safetensors(folder / "other", layout); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(wrote, HasSubstr("cannot write " + path.string() + ": File too large"));
  EXPECT_THAT(made, HasSubstr("cannot write " + (folder / "other").string() + ": File too large"));
}

}  // namespace
}  // namespace trireme
