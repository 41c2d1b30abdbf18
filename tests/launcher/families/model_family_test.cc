#include "launcher/families/model_family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "launcher/job/build.h"
#include "launcher/keys/config_keys.h"
#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

/// The minimal job for a model name, with the family's first size.
JobConfig job_of(const ModelFamily& family, std::string_view name) {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model.name = name;
  if (!family.sizes.empty()) config.model.size = family.sizes.front();
  return config;
}

TEST(ModelFamily, EveryNameIsOfOneFamily) {
  std::set<std::string_view> names;
  for (const ModelFamily* family : model_families()) {
    for (const std::string_view name : family->names) {
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_EQ(&family_of(job_of(*family, name).model), family);
    }
  }
  EXPECT_THAT(error_message([] { family_of({.name = "gtp"}); }),
              ::testing::HasSubstr("model.name = \"gtp\""));
}

TEST(ModelFamily, EveryModelIsBuiltFromItsNameAndSize) {
  for (const ModelFamily* family : model_families()) {
    EXPECT_NE(family->data.kind, DataKind::kSynthetic);
    for (const std::string_view name : family->names) {
      const JobConfig job = resolve(job_of(*family, name));
      EXPECT_GT(build_blocks(job.model)->size(), 2u) << name;
      EXPECT_GT(sample_spec(job).input.num_elems(), 1) << name;
      EXPECT_NE(open_data(job, /*read_whole=*/false).train, nullptr) << name;
      EXPECT_NE(family->describe(job), "") << name;
    }
  }
}

TEST(ModelFamily, ImagesOfWholePatches) {
  const auto refusal = [](std::int64_t image_size) {
    JobConfig job;
    job.data.kind = DataKind::kSynthetic;
    job.model.name = "vit";
    job.model.size = "ti";
    job.model.image_size = image_size;
    return error_message([&] { resolve(job); });
  };
  EXPECT_THAT(refusal(8),
              ::testing::HasSubstr("model.image_size = 8: an image of 8 x 8 pixels is smaller than a patch "
                                   "of model.patch = 16"));
  EXPECT_THAT(refusal(40), ::testing::HasSubstr("not a multiple of model.patch = 16 pixels: 32 or 48 is"));
}

// Every key that a family lists is in the table, for the families that list it.
TEST(ModelFamily, KeysHaveRows) {
  for (const ModelFamily* family : model_families()) {
    JobConfig job = job_of(*family, family->names.front());
    for (const std::string_view listed : family->keys) {
      const auto key =
          std::ranges::find(config_keys(), "model." + std::string(listed), &ConfigKey::full_name);
      ASSERT_NE(key, config_keys().end()) << listed;
      EXPECT_EQ(key->scope_without(job), nullptr) << listed;
      EXPECT_THAT(key->scopes.front().text, ::testing::HasSubstr(std::string(family->plural)));
    }
  }
}

}  // namespace
}  // namespace trireme
