// config.json of a folder in Hugging Face's format: values, labels, and keys that nobody reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_labels.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::write_file;

class HfConfigFile : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
};

TEST_F(HfConfigFile, LabelsAgree) {
  const auto labels = [&](const std::string& text) {
    write_file(folder_ / "c/config.json", text);
    return read_labels(HfConfig(folder_ / "c"));
  };
  const auto message = [&](const std::string& text) { return message_of([&] { labels(text); }); };
  EXPECT_EQ(labels("{}").count, 0);
  EXPECT_EQ(labels(R"({"num_labels": 3})").count, 3);
  EXPECT_TRUE(labels(R"({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}})").names.empty());
  const std::vector<std::string> names{"neg", "pos"};
  EXPECT_EQ(labels(R"({"num_labels": 2, "id2label": {"1": "pos", "0": "neg"}})").names, names);
  EXPECT_EQ(labels(R"({"label2id": {"pos": "1", "neg": 0}})").names, names);
  // Two ImageNet classes are named crane.
  EXPECT_EQ(labels(R"({"id2label": {"0": "crane", "1": "crane"}, "label2id": {"crane": 1}})").count, 2);

  EXPECT_THAT(message(R"({"num_labels": 3, "id2label": {"0": "a", "1": "b"}})"),
              HasSubstr("c/config.json: num_labels is 3, which contradicts id2label"));
  EXPECT_THAT(message(R"({"_num_labels": 3, "id2label": {"0": "a", "1": "b"}})"),
              HasSubstr("_num_labels is 3"));
  EXPECT_THAT(message(R"({"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 1, "b": 0}})"),
              HasSubstr("which contradicts id2label"));
  EXPECT_THAT(message(R"({"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0}})"), HasSubstr("label2id"));
  EXPECT_THAT(message(R"({"id2label": {"1": "a", "2": "b"}})"), HasSubstr("labels are numbered from 0 on"));
  EXPECT_THAT(message(R"({"id2label": {"0": "a", "00": "b"}})"), HasSubstr("no name for the label 1"));
  EXPECT_THAT(message(R"({"id2label": {"0": "a", "1": null}})"), HasSubstr("is no text"));
  EXPECT_THAT(message(R"({"label2id": {"a": 0, "b": 5}})"), HasSubstr("label2id"));
  EXPECT_THAT(message(R"({"id2label": ["a", "b"]})"), HasSubstr("not an object with entries"));
  EXPECT_THAT(message_of([&] {
                write_file(folder_ / "c/config.json", R"({"problem_type": "regression", "num_labels": 2})");
                read_classes(HfConfig(folder_ / "c"));
              }),
              HasSubstr("problem_type is \"regression\""));

  nlohmann::ordered_json written;
  set_labels(written, 3, names);
  write_file(folder_ / "c/config.json", written.dump());
  EXPECT_EQ(read_labels(HfConfig(folder_ / "c")).names, (std::vector<std::string>{"neg", "pos", "LABEL_2"}));
}

TEST_F(HfConfigFile, KeysThatNobodyReadsAreSettled) {
  const auto settle = [&](const std::string& text) {
    write_file(folder_ / "c/config.json", text);
    const HfConfig config(folder_ / "c");
    config.count("n", 1);
    (void)config.object("rope").positive("theta", 1.0);
    config.settle({});
    return config;
  };
  const HfConfig known = settle(R"({"n": 2, "use_cache": true, "rope": {"theta": 2.0}, "auto_map": null})");
  EXPECT_TRUE(known.notes().empty());
  EXPECT_EQ(known.idle().at("use_cache"), "what a call returns");
  EXPECT_THAT(settle(R"({"mine": 1, "rope": {"theta": 1.0, "extra": "x"}})").notes().at(0),
              AllOf(HasSubstr("c/config.json: mine is 1, rope.extra is \"x\": not known here")));
  EXPECT_THAT(settle(R"({"attn_pdrop": 0.1, "resid_pdrop": 0.0})").notes().at(0),
              HasSubstr("attn_pdrop is 0.1: dropout is a choice of the training"));
  EXPECT_THAT(message_of([&] { settle(R"({"quantization_config": {"bits": 4}})"); }),
              HasSubstr("quantization_config is {\"bits\":4}, and this build has only models without it"));
}

TEST_F(HfConfigFile, ConfigurationsNameFileAndKey) {
  const auto config = [&](const std::string& text) {
    write_file(folder_ / "c/config.json", text);
    return HfConfig(folder_ / "c");
  };
  EXPECT_THAT(message_of([&] { HfConfig(folder_ / "none"); }), HasSubstr("there is no folder"));
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_THAT(message_of([&] { HfConfig(folder_ / "empty"); }), HasSubstr("empty has no config.json"));
  EXPECT_THAT(message_of([&] { config("[1]"); }), HasSubstr("config.json is no JSON object"));
  EXPECT_THAT(message_of([&] { config("{"); }), HasSubstr("config.json is damaged"));
  EXPECT_THAT(message_of([&] { (void)config("{}").model_type(); }),
              HasSubstr("c/config.json: model_type is missing, which names no architecture"));
  const HfConfig c = config(R"({"n": 3, "zero": 0, "half": 0.5, "big": 4294967296, "minus": -1, "none": null,
                                "eps": 1e-05, "act": "relu", "rope": {"factor": "x"}})");
  EXPECT_EQ(c.count("n"), 3);
  EXPECT_EQ(c.count("none", 7), 7);
  for (const char* key : {"zero", "half", "big", "minus", "none", "act", "missing"}) {
    EXPECT_THAT(message_of([&] { (void)c.count(key); }),
                AllOf(HasSubstr(key), HasSubstr("not an integer from 1")));
  }
  EXPECT_EQ(c.positive("half", 1), 0.5);
  EXPECT_THAT(message_of([&] { (void)c.positive("minus", 1); }),
              HasSubstr("minus is -1, not a positive number"));
  EXPECT_THAT(message_of([&] { (void)c.positive("act", 1); }),
              HasSubstr("act is \"relu\", not a positive number"));
  EXPECT_THAT(message_of([&] { (void)c.flag("n", true); }), HasSubstr("n is 3, neither true nor false"));
  EXPECT_THAT(message_of([&] { (void)c.text("n", ""); }), HasSubstr("n is 3, not a text"));
  EXPECT_THAT(message_of([&] { (void)c.object("n"); }), HasSubstr("n is 3, not an object"));
  EXPECT_THAT(message_of([&] { (void)c.object("rope").positive("factor", 1); }),
              HasSubstr("config.json: rope.factor is \"x\", not a positive number"));
  EXPECT_FALSE(c.object("none").has("factor"));
  c.expect("eps", 1e-5);
  c.expect("missing", 4);
  EXPECT_THAT(message_of([&] { c.expect("missing", 4, 5); }), HasSubstr("missing is missing"));
  try {
    c.expect("act", "silu");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("act is \"relu\", and this build has only \"silu\""));
  }
}

}  // namespace
}  // namespace trireme
