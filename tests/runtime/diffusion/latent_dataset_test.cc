#include "runtime/diffusion/latent_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/safetensors_writer.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class LatentDatasetTest : public ::testing::Test {
 protected:
  LatentDatasetTest() : folder_(fs::path(::testing::TempDir()) / "latents") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~LatentDatasetTest() override { fs::remove_all(folder_); }

  /// Latents [count, 1, 2, 3] with the numbers first, first + 1, ... in fp16; condition [count, 2, 1];
  /// classes.
  void write(const std::string& name, std::int64_t first, std::int64_t count, const char* classes = "I32") {
    std::vector<float> latents(static_cast<std::size_t>(count) * 6), condition;
    std::iota(latents.begin(), latents.end(), static_cast<float>(first) * 6);
    std::vector<std::int32_t> labels;
    for (std::int64_t i = first; i < first + count; ++i) {
      condition.insert(condition.end(), {static_cast<float>(i), static_cast<float>(-i)});
      labels.push_back(static_cast<std::int32_t>(i % 4));
    }
    std::vector<std::byte> halves;
    append_rounded(latents, DType::kFloat16, halves);
    SafetensorsWriter writer(folder_ / name, {{.name = "classes", .dtype = classes, .shape = {count}},
                                              {.name = "condition", .dtype = "F32", .shape = {count, 2, 1}},
                                              {.name = "latents", .dtype = "F16", .shape = {count, 1, 2, 3}},
                                              {.name = "null_condition", .dtype = "F32", .shape = {2, 1}}});
    writer.append(std::as_bytes(std::span(labels)));
    writer.append(std::span<const float>(condition));
    writer.append(halves);
    writer.append(std::span<const float>(std::vector<float>{0.5f, 0.25f}));
    writer.commit();
  }

  std::string error_of(const LatentDataset::Shapes& shapes) const {
    try {
      LatentDataset(folder_, shapes, 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  const fs::path folder_;
  const LatentDataset::Shapes shapes_{.latent = {1, 2, 3}, .condition = {2, 1}, .classes = 4};
};

TEST_F(LatentDatasetTest, ReadsShardsInOrder) {
  write("b.safetensors", 5, 3);
  write("a.safetensors", 0, 5);
  const LatentDataset data(folder_, shapes_, 1);
  EXPECT_EQ(data.num_samples(), 8);
  EXPECT_EQ(data.null_condition(), (std::vector<float>{0.5f, 0.25f}));
  const HostBatch batch = data.read_sequential(3, 4);
  EXPECT_EQ(batch.input_shape, (Shape{4, 1, 2, 3}));
  std::vector<float> values(24), expected(24);
  std::memcpy(values.data(), batch.inputs.data(), batch.inputs.size());
  std::iota(expected.begin(), expected.end(), 18.0f);
  EXPECT_EQ(values, expected);
  EXPECT_EQ(batch.condition, (std::vector<float>{3, -3, 4, -4, 5, -5, 6, -6}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{3, 0, 1, 2}));
  EXPECT_THROW(data.read_sequential(6, 3), Error);
}

TEST_F(LatentDatasetTest, ReadsEachSampleOnceInAPass) {
  write("a.safetensors", 0, 5);
  write("b.safetensors", 5, 6);
  const LatentDataset data(folder_, shapes_, 1);
  for (const std::int64_t pass : {0, 1}) {
    const HostBatch batch = data.read_train(pass * 11, 11);
    std::vector<float> seen;
    for (std::size_t i = 0; i < batch.condition.size(); i += 2) seen.push_back(batch.condition[i]);
    EXPECT_EQ(data.read_train(pass * 11 + 4, 2).condition[0], seen[4]);
    std::ranges::sort(seen);
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<float>(i));
  }
  EXPECT_NE(data.read_train(0, 11).condition, data.read_train(11, 11).condition);
}

TEST_F(LatentDatasetTest, RefusesShardsOfAnotherShape) {
  EXPECT_THAT(error_of(shapes_), HasSubstr("no *.safetensors"));
  try {
    latent_shards(folder_ / "none");
    ADD_FAILURE() << "a folder that does not exist was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("none: there is no such folder or file"));
  }
  write("a.safetensors", 0, 5);
  EXPECT_EQ(error_of(shapes_), "none");
  EXPECT_EQ(condition_vectors(folder_), 2);
  LatentDataset::Shapes other = shapes_;
  other.latent = {2, 2, 3};
  EXPECT_THAT(error_of(other),
              HasSubstr("`latents` has the shape [5, 1, 2, 3], and the network needs [2, 2, 3]"));
  other = shapes_;
  other.condition = {2, 4};
  EXPECT_THAT(error_of(other), HasSubstr("`condition` has the shape [5, 2, 1]"));
  other = shapes_;
  other.classes = 3;
  EXPECT_THAT(error_of(other), HasSubstr("class 3 of sample 3 is not in [0, 3)"));
  EXPECT_THAT(error_of({.latent = {2, 3}}), HasSubstr("latents are [h, w, c]"));
  write("b.safetensors", 5, 2, "U32");
  EXPECT_THAT(error_of(shapes_), HasSubstr("b.safetensors: `classes` is U32"));
}

/// A shard of one sample.
void write_tensors(const fs::path& path, const std::vector<SafetensorsEntry>& entries) {
  SafetensorsWriter writer(path, entries);
  for (const SafetensorsEntry& entry : entries) {
    std::int64_t elems = 1;
    for (const std::int64_t dim : entry.shape) elems *= dim;
    writer.append(std::span<const float>(std::vector<float>(static_cast<std::size_t>(elems))));
  }
  writer.commit();
}

TEST_F(LatentDatasetTest, RefusesMissingTensorsAndOtherDtypes) {
  const SafetensorsEntry latents{.name = "latents", .dtype = "F32", .shape = {1, 1, 2, 3}},
      condition{.name = "condition", .dtype = "F32", .shape = {1, 2, 1}},
      classes{.name = "classes", .dtype = "I32", .shape = {1}};
  const auto refusal = [&](const std::vector<SafetensorsEntry>& entries) {
    write_tensors(folder_ / "a.safetensors", entries);
    return error_of(shapes_);
  };
  EXPECT_EQ(refusal({classes, condition, latents}), "none");
  EXPECT_THAT(refusal({classes, condition}), HasSubstr("a.safetensors: there is no tensor `latents`"));
  EXPECT_THAT(refusal({classes, latents}), HasSubstr("there is no tensor `condition`"));
  EXPECT_THAT(refusal({condition, latents}),
              HasSubstr("no tensor `classes`, and the network reads one of 4 classes"));
  SafetensorsEntry other = latents;
  other.dtype = "I32";
  EXPECT_THAT(refusal({classes, condition, other}),
              HasSubstr("`latents` is I32; it must be F32, F16 or BF16"));
  other = condition;
  other.shape = {2, 2, 1};
  EXPECT_THAT(refusal({classes, other, latents}), HasSubstr("there are 1 latents and 2 conditions"));
  other = classes;
  other.shape = {2};
  EXPECT_THAT(refusal({other, condition, latents}), HasSubstr("`classes` is I32 [2]; it must be I32 [1]"));
  const SafetensorsEntry null{.name = "null_condition", .dtype = "F32", .shape = {3, 1}};
  EXPECT_THAT(refusal({classes, condition, latents, null}),
              HasSubstr("`null_condition` has the shape [3, 1], and the network needs [2, 1]"));
}

TEST_F(LatentDatasetTest, HasAFingerprintOfItsContents) {
  write("a.safetensors", 0, 5);
  const DataFingerprint one = LatentDataset(folder_, shapes_, 1).fingerprint();
  fs::rename(folder_ / "a.safetensors", folder_ / "c.safetensors");
  EXPECT_EQ(LatentDataset(folder_, shapes_, 2).fingerprint(), one);
  write("c.safetensors", 1, 5);
  EXPECT_FALSE(LatentDataset(folder_, shapes_, 1).fingerprint() == one);
}

}  // namespace
}  // namespace trireme
