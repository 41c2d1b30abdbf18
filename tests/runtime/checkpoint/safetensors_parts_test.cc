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
  CheckpointFile whole = writer.commit();

  const std::filesystem::path path = folder / "parts";
  const SafetensorsLayout layout(path, kTensors, {{"format", "test"}});
  make_safetensors(path, layout);
  SafetensorsPart first(path, layout), second(path, layout);
  second.write(2, 0, b);
  second.write(0, 2048, std::span(w).subspan(2048));
  first.write(0, 0, std::span(w).first(2048));
  first.sync();
  second.sync();
  EXPECT_EQ(testing::read_file(path), testing::read_file(folder / "whole"));
  whole.name = "parts";
  EXPECT_EQ(describe_safetensors(path), whole);
}

TEST(SafetensorsParts, AFileThatCannotBeWrittenIsNamed) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder / "parts";
  const SafetensorsLayout layout(path, kTensors, {});
  EXPECT_THAT(testing::message_of([&] {
                SafetensorsPart{path, layout};
              }),
              HasSubstr("cannot open " + path.string() + ": No such file"));
  make_safetensors(path, layout);
  EXPECT_THAT(testing::message_of([&] { make_safetensors(path, layout); }), HasSubstr("File exists"));

  // A file size limit simulates a full disk.
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  SafetensorsPart part(path, layout);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string wrote = testing::message_of([&] { part.write(0, 1000, numbers(1000, 0.0f)); });
  const std::string made = testing::message_of([&] { make_safetensors(folder / "other", layout); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(wrote, HasSubstr("cannot write " + path.string() + ": File too large"));
  EXPECT_THAT(made, HasSubstr("cannot write " + (folder / "other").string() + ": File too large"));
}

}  // namespace
}  // namespace trireme
