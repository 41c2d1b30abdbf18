// Folders in Hugging Face's format, read by HfSource and written by write_hf_folder().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <cmath>

#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_source.h"
#include "runtime/checkpoint/hf_writer.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::TemporaryFolder;
using testing::write_file;

/// Stacked, transposed and plain tensors, in sizes that are no multiple of a strip.
HfModel small_model() {
  return {.config = {{"model_type", "small"}},
          .prefix = "net.",
          .tensors = {{"stacked", {{"net.a", {5, 7}}, {"net.b", {3, 7}}, {"net.c", {2, 7}}}},
                      {"transposed", {{"net.t", {70, 131}, true}}},
                      {"plain", {{"net.p", {9}}}},
                      {"head", {{"top", {4, 7}}}}},
          .copies = {{"net.p_again", "net.p"}},
          .derived = {derived_causal_mask(".mask")},
          .unused = {"net.other_head."}};
}

const std::vector<SafetensorsEntry> kOurs{{"stacked", "F32", {10, 7}},
                                          {"transposed", "F32", {131, 70}},
                                          {"plain", "F32", {9}},
                                          {"head", "F32", {4, 7}}};

std::size_t elems_of(const SafetensorsEntry& entry) {
  std::size_t product = 1;
  for (const std::int64_t extent : entry.shape) product *= static_cast<std::size_t>(extent);
  return product;
}

/// Numbers that are exact in bf16, distinct within the first 250 of a tensor.
std::vector<float> numbers(std::size_t count, int start) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((static_cast<int>(i) + start) % 251) * (i / 251 % 2 == 0 ? 1.0f : -0.5f);
  }
  return values;
}

std::filesystem::path write_ours(const TemporaryFolder& folder) {
  const auto path = folder / "ours.safetensors";
  SafetensorsWriter writer(path, kOurs);
  int start = 0;
  for (const SafetensorsEntry& entry : kOurs) writer.append(numbers(elems_of(entry), ++start));
  writer.commit();
  return path;
}

/// Writes a file with these tensors, filled with zeros.
void write_tensors(const std::filesystem::path& path, const std::vector<SafetensorsEntry>& entries) {
  SafetensorsWriter writer(path, entries);
  for (const SafetensorsEntry& entry : entries) {
    writer.append(std::vector<std::byte>(*safetensors_data_bytes(entry)));
  }
  writer.commit();
}

std::vector<SafetensorsEntry> their_entries(const std::string& dtype = "F32") {
  std::vector<SafetensorsEntry> entries;
  for (const HfTensor& tensor : small_model().tensors) {
    for (const HfPart& part : tensor.parts) entries.push_back({part.name, dtype, part.shape});
  }
  return entries;
}

class HfFolder : public ::testing::Test {
 protected:
  /// The error of checking a folder with these tensors in one file.
  std::string check_message(const std::vector<SafetensorsEntry>& entries) {
    write_file(folder_ / "in/model.safetensors", "");
    write_tensors(folder_ / "in/model.safetensors", entries);
    return message_of([&] { HfSource(folder_ / "in", small_model()).check(kOurs); });
  }
  std::vector<SafetensorsEntry> changed(const std::string& name, auto change) {
    auto entries = their_entries();
    for (SafetensorsEntry& entry : entries) {
      if (entry.name == name) change(entry);
    }
    return entries;
  }

  TemporaryFolder folder_;
};

TEST_F(HfFolder, AModelLeavesAndComesBackFromAnyElementOn) {
  const SafetensorsReader ours(write_ours(folder_));
  for (const auto& [name, dtype, word] :
       {std::tuple{"fp32", DType::kFloat32, "float32"}, std::tuple{"bf16", DType::kBFloat16, "bfloat16"},
        std::tuple{"fp16", DType::kFloat16, "float16"}}) {
    write_hf_folder(ours, small_model(), dtype, folder_ / name);
    const HfConfig config(folder_ / name);
    EXPECT_EQ(config.model_type(), "small");
    EXPECT_EQ(config.text("torch_dtype", ""), word);
    const HfSource source(folder_ / name, small_model());
    EXPECT_EQ(message_of([&] { source.check(kOurs); }), "");
    for (const SafetensorsEntry& entry : kOurs) {
      const std::size_t count = elems_of(entry);
      std::vector<float> expected(count);
      ours.copy_floats(entry.name, 0, expected);
      for (std::size_t first = 0; first < count; first += 1 + first / 2) {
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, (count - first) / 3, count - first}) {
          std::vector<float> out(size);
          source.copy_floats(entry.name, first, out);
          const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(first);
          ASSERT_EQ(out, std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(size)))
              << name << " " << entry.name << " " << first;
        }
      }
    }
  }
  EXPECT_EQ(folder_.num_entries(), 4);  // nothing temporary
}

TEST_F(HfFolder, TheirMatricesAreTransposed) {
  const SafetensorsReader ours(write_ours(folder_));
  write_hf_folder(ours, small_model(), DType::kFloat32, folder_ / "out");
  const SafetensorsReader theirs(folder_ / "out/model.safetensors");
  EXPECT_EQ(theirs.tensors().size(), 6u);
  EXPECT_EQ(theirs.metadata().at("format"), "pt");
  float there = 0, here = 0;
  theirs.copy_floats("net.t", 69 * 131 + 5, std::span(&there, 1));
  ours.copy_floats("transposed", 5 * 70 + 69, std::span(&here, 1));
  EXPECT_EQ(there, here);
  theirs.copy_floats("net.b", 2 * 7 + 6, std::span(&there, 1));
  ours.copy_floats("stacked", (5 + 2) * 7 + 6, std::span(&here, 1));
  EXPECT_EQ(there, here);
}

TEST_F(HfFolder, AFolderAppearsWholeOrNotAtAll) {
  const auto path = write_ours(folder_);
  const SafetensorsReader ours(path);
  const auto out = folder_ / "out";
  // A model of other sizes is detected only after its first tensors are written.
  HfModel larger = small_model();
  larger.tensors.back().parts.front().shape = {4, 8};
  EXPECT_THAT(message_of([&] { write_hf_folder(ours, larger, DType::kFloat32, out); }),
              HasSubstr("tensor 'head' is F32 [4, 7], too small for 'top'"));
  HfModel smaller = small_model();
  smaller.tensors[1].parts.front().shape = {70, 130};
  EXPECT_THAT(message_of([&] { write_hf_folder(ours, smaller, DType::kFloat32, out); }),
              HasSubstr("'transposed' of [131, 70] has 9170 elements"));
  EXPECT_EQ(folder_.num_entries(), 1);

  std::filesystem::create_directory(out);  // an empty folder is allowed
  write_hf_folder(ours, small_model(), DType::kFloat32, folder_ / "out/");
  EXPECT_THAT(message_of([&] { write_hf_folder(ours, small_model(), DType::kFloat32, out); }),
              HasSubstr("out is there already: choose another folder, or remove it"));
  EXPECT_THAT(message_of([&] { write_hf_folder(ours, small_model(), DType::kFloat32, path); }),
              HasSubstr("is there already"));
  EXPECT_THAT(message_of([&] { write_hf_folder(ours, small_model(), DType::kFloat32, folder_ / "no/out"); }),
              HasSubstr("cannot make folder"));
  EXPECT_EQ(folder_.num_entries(), 2);
}

TEST_F(HfFolder, RemainsOfAKilledWriterAreRemoved) {
  const SafetensorsReader ours(write_ours(folder_));
  // No process has this number and start time.
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  const auto remains = folder_ / (std::string(".out.tmp-1.1@") + host);
  write_file(remains / "model.safetensors", "half");
  write_hf_folder(ours, small_model(), DType::kFloat32, folder_ / "out");
  EXPECT_FALSE(std::filesystem::exists(remains));
}

TEST_F(HfFolder, Fp16RefusesWhatItCannotHold) {
  SafetensorsWriter writer(folder_ / "ours", {{"plain", "F32", {9}}});
  std::vector<float> values(9, 65519.0f);
  values[3] = -65520.0f;
  writer.append(values);
  writer.commit();
  const SafetensorsReader ours(folder_ / "ours");
  const HfModel model{.config = {{"model_type", "small"}}, .tensors = {{"plain", {{"p", {9}}}}}};
  EXPECT_THAT(message_of([&] { write_hf_folder(ours, model, DType::kFloat16, folder_ / "out"); }),
              HasSubstr("tensor 'p' holds -65520, which fp16 cannot: choose a wider one"));
  EXPECT_EQ(folder_.num_entries(), 1);
  write_hf_folder(ours, model, DType::kBFloat16, folder_ / "out");
}

TEST_F(HfFolder, NamesWhatIsMissingMisshapenOrTooMuch) {
  EXPECT_EQ(check_message(their_entries()), "");
  EXPECT_EQ(check_message(their_entries("F16")), "");
  EXPECT_THAT(check_message(changed("net.b", [](auto& entry) { entry.name = "net.d"; })),
              HasSubstr("in/model.safetensors has no tensor 'net.b'"));
  EXPECT_THAT(
      check_message(changed("net.t", [](auto& entry) { std::swap(entry.shape[0], entry.shape[1]); })),
      HasSubstr("in/model.safetensors: tensor 'net.t' is F32 [131, 70], this model needs F32, F16 or BF16 "
                "[70, 131]"));
  EXPECT_THAT(check_message(changed("net.p", [](auto& entry) { entry.dtype = "F64"; })),
              HasSubstr("tensor 'net.p' is F64 [9], this model needs F32, F16 or BF16 [9]"));
  auto more = their_entries();
  more.push_back({"net.other_head.weight", "U8", {3}});
  EXPECT_EQ(check_message(more), "");
  more.push_back({"net.h.0.bias", "F32", {3}});
  EXPECT_THAT(check_message(more),
              HasSubstr("in/model.safetensors holds the tensor 'net.h.0.bias', which this "
                        "model does not have"));
}

/// Writes `entries` to "in", with all elements equal to `value`.
void write_ones(const TemporaryFolder& folder, const std::vector<SafetensorsEntry>& entries, float value) {
  write_file(folder / "in/model.safetensors", "");
  SafetensorsWriter writer(folder / "in/model.safetensors", entries);
  for (const SafetensorsEntry& entry : entries) writer.append(std::vector<float>(elems_of(entry), value));
  writer.commit();
}

TEST_F(HfFolder, WhatIsNotTakenIsCompared) {
  const auto entries_with = [](SafetensorsEntry entry) {
    auto entries = their_entries();
    entries.push_back(std::move(entry));
    return entries;
  };
  const auto message = [&](const SafetensorsEntry& entry, float value) {
    write_ones(folder_, entries_with(entry), value);
    return message_of([&] { HfSource(folder_ / "in", small_model()).check(kOurs); });
  };
  EXPECT_EQ(message({"net.p_again", "F32", {9}}, 1.0f), "");
  EXPECT_THAT(
      message({"net.p_again", "F32", {3, 3}}, 1.0f),
      AllOf(HasSubstr("tensor 'net.p_again' is not equal to 'net.p'"), HasSubstr("F32 [3, 3] and F32 [9]")));
  write_tensors(folder_ / "in/model.safetensors", entries_with({"net.p_again", "BF16", {9}}));  // zeros
  EXPECT_EQ(message_of([&] { HfSource(folder_ / "in", small_model()).check(kOurs); }), "");
  {
    const auto entries = entries_with({"net.p_again", "F32", {9}});
    SafetensorsWriter writer(folder_ / "in/model.safetensors", entries);
    for (const SafetensorsEntry& entry : entries) {
      std::vector<float> values(elems_of(entry));
      if (entry.name == "net.p_again") values[7] = 0.5f;
      writer.append(values);
    }
    writer.commit();
  }
  EXPECT_THAT(message_of([&] { HfSource(folder_ / "in", small_model()).check(kOurs); }),
              AllOf(HasSubstr("element 7 is 0.5 and 0"), HasSubstr("set tie_word_embeddings to false")));
  HfModel tied = small_model();
  tied.can_be_untied = false;
  EXPECT_THAT(message_of([&] { HfSource(folder_ / "in", tied).check(kOurs); }),
              AllOf(HasSubstr("remove 'net.p_again'"), Not(HasSubstr("tie_word_embeddings"))));

  EXPECT_EQ(message({"net.h.0.mask", "F32", {1, 1, 1, 1}}, 1.0f), "");
  EXPECT_THAT(message({"net.h.0.mask", "F32", {1, 1, 2, 2}}, 1.0f),
              AllOf(HasSubstr("element 1 of tensor 'net.h.0.mask' [1, 1, 2, 2] is 1"),
                    HasSubstr("this build computes with the causal mask")));
}

// A file may contain only the copy.
TEST_F(HfFolder, ACopyStandsInForItsOriginal) {
  write_ones(folder_, changed("net.p", [](auto& entry) { entry.name = "net.p_again"; }), 3.0f);
  const HfSource source(folder_ / "in", small_model());
  EXPECT_EQ(message_of([&] { source.check(kOurs); }), "");
  std::vector<float> values(9);
  source.copy_floats("plain", 0, values);
  EXPECT_EQ(values, std::vector<float>(9, 3.0f));
}

TEST_F(HfFolder, NamesOfWrappersAndOfOldFormatsAreUnderstood) {
  HfModel model = small_model();
  model.tensors[2].parts[0].name = "net.norm.weight";
  model.copies.clear();
  const std::string stored[] = {"module.net.norm.gamma", "_orig_mod.module.net.norm.weight",
                                "net._orig_mod.norm.weight", "module._orig_mod.norm.gamma"};
  for (const std::string& name : stored) {
    auto entries = their_entries();
    for (SafetensorsEntry& entry : entries) {
      if (entry.name == "net.p") entry.name = name;
    }
    write_ones(folder_, entries, 2.0f);
    const HfSource source(folder_ / "in", model);
    EXPECT_EQ(message_of([&] { source.check(kOurs); }), "") << name;
    ASSERT_EQ(source.notes().size(), 1u) << name;
    EXPECT_THAT(source.notes()[0], HasSubstr("names of tensors are read with")) << name;
  }
  auto both = their_entries();
  both.push_back({"net.norm.weight", "F32", {9}});
  both.push_back({"net.norm.gamma", "F32", {9}});
  write_ones(folder_, both, 1.0f);
  EXPECT_THAT(message_of([&] { HfSource(folder_ / "in", model); }),
              AllOf(HasSubstr("'net.norm.gamma'"), HasSubstr("'net.norm.weight', two names of one tensor")));
}

// Names as saved for a model without its head.
TEST_F(HfFolder, NamesMayLackTheirPrefix) {
  auto entries = their_entries();
  for (SafetensorsEntry& entry : entries) {
    if (entry.name.starts_with("net.")) entry.name = entry.name.substr(4);
  }
  EXPECT_EQ(check_message(entries), "");
  entries.erase(entries.begin());
  EXPECT_THAT(check_message(entries), HasSubstr("has no tensor 'a'"));
}

TEST_F(HfFolder, ReadsShards) {
  const SafetensorsReader ours(write_ours(folder_));
  write_hf_folder(ours, small_model(), DType::kFloat32, folder_ / "whole");
  const SafetensorsReader whole(folder_ / "whole/model.safetensors");
  const auto in = folder_ / "in";
  nlohmann::json map;
  const auto write_shard = [&](const std::string& name, std::size_t first, std::size_t end) {
    std::vector<SafetensorsEntry> entries(whole.tensors().begin() + static_cast<std::ptrdiff_t>(first),
                                          whole.tensors().begin() + static_cast<std::ptrdiff_t>(end));
    SafetensorsWriter writer(in / name, entries);
    for (std::size_t i = first; i < end; ++i) {
      map[whole.tensors()[i].name] = name;
      writer.append(whole.tensors()[i].data);
    }
    writer.commit();
  };
  const auto write_index = [&](const nlohmann::json& weights) {
    write_file(in / "model.safetensors.index.json", nlohmann::json{{"weight_map", weights}}.dump());
  };
  write_file(in / "config.json", "{}");
  EXPECT_THAT(message_of([&] { HfSource(in, small_model()); }),
              HasSubstr("in has neither model.safetensors nor model.safetensors.index.json"));
  write_shard("one", 0, 2);
  write_shard("two", 2, 6);
  write_index(map);
  const HfSource source(in, small_model());
  EXPECT_EQ(message_of([&] { source.check(kOurs); }), "");
  std::vector<float> expected(70), values(70);
  ours.copy_floats("stacked", 0, expected);
  source.copy_floats("stacked", 0, values);
  EXPECT_EQ(values, expected);

  const auto open_message = [&] { return message_of([&] { HfSource(in, small_model()).check(kOurs); }); };
  const nlohmann::json good = map;
  map["net.c"] = "three";
  write_index(map);
  EXPECT_THAT(open_message(), AllOf(HasSubstr("shard"), HasSubstr("in/three is missing"),
                                    HasSubstr("model.safetensors.index.json has tensor 'net.c' in it")));
  map["net.c"] = "one";
  write_index(map);
  EXPECT_THAT(open_message(), HasSubstr("in/one has no tensor 'net.c', which "));
  map["net.c"] = "../ours.safetensors";
  write_index(map);
  EXPECT_THAT(open_message(),
              HasSubstr("the shard of 'net.c' is \"../ours.safetensors\", which is no file of its folder"));
  map["net.c"] = std::string("one\0x", 5);
  write_index(map);
  EXPECT_THAT(open_message(), HasSubstr("which is no file of its folder"));
  std::filesystem::create_symlink("../elsewhere", in / "three");
  write_file(folder_ / "elsewhere", "x");
  map["net.c"] = "three";
  write_index(map);
  EXPECT_THAT(open_message(), AllOf(HasSubstr("the shard"), HasSubstr("in/three is a link to "),
                                    HasSubstr("elsewhere, outside of its folder")));
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
    std::filesystem::remove(in / name);
    std::filesystem::create_symlink("../elsewhere", in / name);
    EXPECT_THAT(open_message(), AllOf(HasSubstr(name), HasSubstr("outside of its folder")));
    std::filesystem::remove(in / name);
  }
  map["net.c"] = 3;
  write_index(map);
  EXPECT_THAT(open_message(), HasSubstr("the shard of 'net.c' is 3, no name of a file"));
  write_index(nullptr);
  EXPECT_THAT(open_message(), HasSubstr("index.json has no \"weight_map\""));
  write_shard("two", 2, 5);
  write_index(good);
  EXPECT_THAT(open_message(), HasSubstr("in/two has no tensor"));
  write_shard("two", 0, 6);  // tensors of "one", too
  write_index(good);
  EXPECT_THAT(open_message(), AllOf(HasSubstr("is in two shards"), HasSubstr("in/one"), HasSubstr("in/two")));
  write_file(in / "two", "no safetensors");
  EXPECT_THAT(open_message(), HasSubstr("in/two is no safetensors file"));
}

TEST(HfFolderFormats, WeightsOfOtherFormatsAreNamed) {
  const TemporaryFolder folder;
  const auto refusal = [&] { return message_of([&] { HfSource(folder.path(), small_model()); }); };
  EXPECT_THAT(refusal(), HasSubstr("weights in other formats are not read"));
  write_file(folder / "pytorch_model.bin", "\x80\x02\x8a\nl\xfc");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("its pytorch_model.bin is a PyTorch pickle"),
                               HasSubstr("safetensors.torch.save_file")));
  write_file(folder / "other.safetensors", "x");
  EXPECT_THAT(refusal(),
              HasSubstr("it has other.safetensors, which is read under the name model.safetensors"));
}

}  // namespace
}  // namespace trireme
