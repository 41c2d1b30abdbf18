// A folder of Hugging Face's format: config.json, and the index of its shards.
#include "launcher/config/config.h"
#include "launcher/families/hf_exchange.h"
#include "launcher/families/model_family.h"
#include "launcher/keys/job_file.h"
#include "runtime/checkpoint/hf_source.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "tests/fuzz/json_changes.h"
#include "tests/fuzz/reader.h"

namespace trireme::fuzz {
namespace {

/// An accepted file gives a configuration that is accepted again, and a job that reads back as itself.
int fuzz_hf_config(const std::uint8_t* data, std::size_t size) {
  input_file(kHfConfigFile, as_text(data, size));
  JobConfig job;
  job.data.kind = DataKind::kSynthetic;
  const bool makes_a_job = taken([&] {
    job.model = model_of_hf_folder(scratch_folder());
    check_config(job);
  });
  if (!makes_a_job) return 0;
  const std::string text = to_toml(job);
  require(to_toml(parse_written_config(text, "resolved")) == text, "the job differs when read again");
  const HfFormat& format = *family_of(job.model).hf;
  const nlohmann::ordered_json config = format.config(job.model);
  input_file(kHfConfigFile, config.dump());
  require(format.config(model_of_hf_folder(scratch_folder())) == config, "the model differs when read again");
  return 0;
}

std::vector<std::string> hf_configs() {
  std::vector<std::string> texts;
  for (const char* keys : {"name = \"gpt\"\nlayers = 1\nhidden = 8\nheads = 2\nvocab = 9\nseq_len = 4\n",
                           "name = \"llama\"\nlayers = 1\nhidden = 8\nheads = 2\nkv_heads = 1\nffn = 5\n"
                           "vocab = 9\nseq_len = 4\nrope_theta = 100\nrope_factor = 8\n"}) {
    JobConfig job =
        parse_config(std::string("[model]\n") + keys + "[data]\nkind = \"synthetic\"\n", "job.toml");
    family_of(job.model).fill_in(job);
    texts.push_back(hf_model_of(job.model).config.dump());
  }
  return texts;
}

HfModel two_shards() {
  return {.prefix = "net.", .tensors = {{"a", {{"net.a", {2}}}}, {"b", {{"net.b", {3}}}}}};
}

void write_shard(const char* file, const SafetensorsEntry& entry) {
  SafetensorsWriter writer(scratch_folder() / file, {entry});
  writer.append(std::vector<std::byte>(*safetensors_data_bytes(entry)));
  writer.commit();
}

int fuzz_hf_index(const std::uint8_t* data, std::size_t size) {
  std::filesystem::remove(scratch_folder() / SafetensorsFolder::kFileName);
  input_file(SafetensorsFolder::kIndexName, as_text(data, size));
  const SafetensorsEntry wanted[] = {{"a", "F32", {2}}, {"b", "F32", {3}}};
  taken([&] {
    const HfSource source(scratch_folder(), two_shards());
    source.check(wanted);
    float values[3] = {1, 1, 1};
    source.copy_floats("b", 0, values);
    require(values[2] == 0, "what is not in the file was read");
  });
  return 0;
}

std::vector<std::string> hf_indices() {
  write_shard("one.safetensors", {"net.a", "F32", {2}});
  write_shard("two.safetensors", {"net.b", "BF16", {3}});
  return {
      R"({"metadata": {"total_size": 14}, "weight_map": {"net.a": "one.safetensors", "net.b": "two.safetensors"}})",
      R"({"weight_map": {"net.a": "one.safetensors"}})"};
}

void change_hf_file(std::string& text, Random& random) {
  constexpr std::string_view kWords[] = {"\"one.safetensors\"", "\"two.safetensors\"", "\"../a\"", "8", "2"};
  change_json(text, random, kWords);
}

}  // namespace

const Reader kHfConfig{"hf_config", fuzz_hf_config, hf_configs, change_hf_file};
const Reader kHfIndex{"hf_index", fuzz_hf_index, hf_indices, change_hf_file};

}  // namespace trireme::fuzz
