#include "launcher/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <algorithm>
#include <set>
#include <sstream>

#include "launcher/keys/config_keys.h"
#include "launcher/keys/foreign_names.h"
#include "launcher/keys/job_file.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The minimal job.
constexpr const char* kJob = "[model]\nsize = \"124m\"\n[data]\ntrain = \"tokens\"\n";

JobConfig parse(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return parse_config(kJob + more, "job.toml", overrides);
}

std::string parse_error(const std::string& more, const std::vector<std::string>& overrides = {},
                        ErrorCode code = ErrorCode::kInvalidInput) {
  return error_message([&] { parse(more, overrides); }, code);
}

TEST(Config, DefaultsComeFromTheStructs) {
  EXPECT_EQ(to_toml(parse("")).find("steps = 1000\n") != std::string::npos, true);
  JobConfig expected;
  expected.model.size = "124m";
  expected.data.train = "tokens";
  EXPECT_EQ(to_toml(parse("")), to_toml(expected));
}

TEST(Config, ReadsEveryType) {
  const JobConfig config = parse(
      "[train]\nsteps = 12\n[optimizer]\nlr = 1\nbetas = [0.8, 0.99]\nnesterov = true\nname = \"muon\"\n"
      "[parallel]\nmemory_limit = \"1.5 GiB\"\n");
  EXPECT_EQ(config.train.steps, 12);
  EXPECT_EQ(config.optimizer.lr, 1.0);
  EXPECT_EQ(config.optimizer.betas[0], 0.8);
  EXPECT_EQ(config.optimizer.betas[1], 0.99);
  EXPECT_TRUE(config.optimizer.nesterov);
  EXPECT_EQ(config.optimizer.name, OptimizerConfig::Kind::kMuon);
  EXPECT_EQ(config.parallel.memory_limit, 1610612736);
}

TEST(Config, UnknownKeyNamesNearestAndPlace) {
  const std::string message = parse_error("[train]\nsteps = 5\n  mirco_batch = 4\n");
  EXPECT_THAT(message,
              StartsWith("job.toml:7:3: unknown key train.mirco_batch; did you mean train.micro_batch?"));
}

TEST(Config, UnknownKeyOfAnotherSection) {
  EXPECT_THAT(parse_error("[train]\nlr = 0.1\n"), HasSubstr("did you mean optimizer.lr?"));
  EXPECT_THAT(parse_error("[parallel]\nrecompute_evry = 2\n"),
              HasSubstr("did you mean parallel.recompute_every?"));
  EXPECT_THAT(
      parse_error("[parallel]\nrecompute = \"attention\"\n"),
      HasSubstr("parallel.recompute = \"attention\" is out of range; allowed: \"none\", \"selective\""));
  EXPECT_THAT(parse_error("[parallel]\nrecompute_every = \"attention\"\n"),
              HasSubstr("parallel.recompute_every needs an integer, found the string \"attention\""));
}

TEST(Config, UnknownSectionNamesNearestAndPlace) {
  EXPECT_THAT(parse_error("[optimiser]\nlr = 0.1\n"),
              StartsWith("job.toml:5:2: unknown section [optimiser]; did you mean [optimizer]?"));
  EXPECT_THAT(parse_error("[optimiser]\n"), HasSubstr("did you mean [optimizer]?"));
}

TEST(Config, KeyOutsideOfSections) {
  const std::string message = error_message([] { parse_config("steps = 5\n", "job.toml"); });
  EXPECT_THAT(message, StartsWith("job.toml:1:1: steps is outside of any section; did you mean train.steps"));
  EXPECT_THAT(error_message([] { parse_config("[[train]]\nsteps = 2\n", "job.toml"); }),
              HasSubstr("[[train]] is a list of tables; write [train]"));
}

// Users of other frameworks write those frameworks' names, also in their sections.
TEST(Config, NamesOfOtherFrameworksAreTranslated) {
  const auto suggests = [](const std::string& key) { return HasSubstr("; did you mean " + key); };
  for (const char* section : {"[train]\n", "[optimizer]\n", "[checkpoint]\n", "[log]\n"}) {
    const std::string in = section;
    EXPECT_THAT(parse_error(in + "learning_rate = 0.1\n"), suggests("optimizer.lr?"));
    EXPECT_THAT(parse_error(in + "batch_size = 8\n"), suggests("train.global_batch (samples of a step"));
    EXPECT_THAT(parse_error(in + "epochs = 3\n"), suggests("train.steps (steps = epochs x samples"));
    EXPECT_THAT(parse_error(in + "max_steps = 3\n"), suggests("train.steps?"));
    EXPECT_THAT(parse_error(in + "grad_accum = 4\n"), suggests("train.global_batch (a data rank"));
    EXPECT_THAT(parse_error(in + "Warmup-Ratio = 0.1\n"), suggests("optimizer.warmup_steps (in steps"));
    EXPECT_THAT(parse_error(in + "bf16 = true\n"), suggests("precision.mode (mode = \"bf16\")"));
    EXPECT_THAT(parse_error(in + "world_size = 4\n"), HasSubstr("; no key does that: data ranks ="));
  }
  EXPECT_THAT(parse_error("", {"train.lora.r=8"}), suggests("train.lora.rank?"));
  EXPECT_THAT(parse_error("", {"data.path=d"}), suggests("data.train?"));
  EXPECT_THAT(parse_error("", {"data.validation=d"}), suggests("data.eval?"));
  EXPECT_THAT(parse_error("[checkpoint]\ndir = \"d\"\n"),
              HasSubstr("; no key does that: use the option --out"));
  EXPECT_THAT(parse_error("[parallel]\nddp = true\n"), HasSubstr("; no key does that: data ranks ="));
  EXPECT_THAT(parse_error("[train]\ncompile = true\n"),
              HasSubstr("; no key does that: kernels are compiled"));
  EXPECT_THAT(parse_error("[train]\nquantum_flux = 1\n"), HasSubstr("; no key has a name like it. Keys of"));
  EXPECT_THAT(
      parse_error("[training]\nlearning_rate = 0.1\nfoo = 1\n"),
      AllOf(suggests("[train]? Its learning_rate is optimizer.lr. Sections are"), HasSubstr("[training]")));
  EXPECT_THAT(parse_error("[train.optimizer]\ntype = \"adamw\"\n"),
              AllOf(HasSubstr("unknown section [train.optimizer]"), suggests("[optimizer]?")));
  EXPECT_THAT(parse_error("[train.zero_optimization]\nstage = 2\n"),
              suggests("[parallel]? Its stage is parallel.zero"));
  const auto alone = [](const std::string& job) {
    return error_message([&] { parse_config(job, "job.toml"); });
  };
  EXPECT_THAT(
      alone("learning_rate = 0.1\n"),
      StartsWith("job.toml:1:1: learning_rate is outside of any section; did you mean optimizer.lr?"));
  EXPECT_THAT(alone("optimizer = \"adamw\"\n"), HasSubstr("optimizer is a section: [optimizer]"));
  EXPECT_THAT(parse_error("", {"learning_rate=0.1"}), suggests("optimizer.lr?"));
  EXPECT_THAT(parse_error("", {"--num_train_epochs=1"}), suggests("train.steps (steps ="));
  EXPECT_THAT(parse_error("", {"trainer.max_epochs=1"}), suggests("[train]? Its max_epochs is train.steps"));
  EXPECT_THAT(parse_error("", {"optimizer.params.lr=1"}), suggests("optimizer.lr?"));
}

TEST(Config, ForeignNamesLeadToKeysThatExist) {
  std::set<std::string> seen;
  for (const ForeignName& one : foreign_names()) {
    const std::string key(one.key);
    EXPECT_TRUE(key.empty() ? !one.hint.empty()
                            : std::ranges::count(config_keys(), key, &ConfigKey::full_name) == 1)
        << one.names << " leads to " << key;
    std::istringstream names{std::string(one.names)};
    for (std::string name; names >> name;) {
      EXPECT_TRUE(seen.insert(name).second) << name << " comes twice";
      EXPECT_EQ(find_foreign_name(name), &one);
    }
  }
  EXPECT_GT(seen.size(), 100u);
  EXPECT_EQ(find_foreign_name("stesp"), nullptr);
}

TEST(Config, WrongTypeNamesKeyWantedAndFound) {
  EXPECT_EQ(parse_error("[train]\nsteps = \"many\"\n"),
            "job.toml:6:1: train.steps needs an integer, found the string \"many\"");
  EXPECT_THAT(parse_error("[train]\nsteps = 1e3\n"), HasSubstr("needs an integer, found the number 1000"));
  EXPECT_THAT(parse_error("[optimizer]\nlr = true\n"), HasSubstr("optimizer.lr needs a number, found true"));
  EXPECT_THAT(parse_error("[optimizer]\nlr = nan\n"), HasSubstr("needs a number, found the number nan"));
  EXPECT_THAT(parse_error("[optimizer]\nbetas = [0.9]\n"),
              HasSubstr("needs a list of two numbers, found a list of 1"));
  EXPECT_THAT(parse_error("[optimizer]\nname = 3\n"), HasSubstr("needs a string, found the integer 3"));
  EXPECT_THAT(parse_error("[optimizer]\nnesterov = 1\n"),
              HasSubstr("needs true or false, found the integer 1"));
  EXPECT_THAT(parse_error("[optimizer]\nlr = 2020-01-01\n"), HasSubstr("found a date or time"));
  EXPECT_THAT(parse_error("[optimizer.lr]\n"), HasSubstr("needs a number, found a table"));
  EXPECT_THAT(parse_error("[parallel]\nmemory_limit = \"12 elephants\"\n"),
              HasSubstr("needs a number of bytes"));
}

TEST(Config, RangesAreChecked) {
  EXPECT_THAT(parse_error("[train]\nsteps = 0\n"),
              StartsWith("job.toml:6:1: train.steps = 0 is out of range; allowed: 1 or more"));
  EXPECT_THAT(parse_error("[train]\nmicro_batch = 3000000000\n"), HasSubstr("is out of range"));
  EXPECT_THAT(parse_error("", {"model.dropout=1.0"}), HasSubstr("is out of range"));
  EXPECT_THAT(parse_error("", {"parallel.zero=4"}), HasSubstr("allowed: 0 to 3"));
  EXPECT_THAT(parse_error("[optimizer]\nlr = 0\n"), HasSubstr("allowed: above 0"));
  EXPECT_THAT(parse_error("[optimizer]\nbetas = [0.9, 1.0]\n"), HasSubstr("optimizer.betas = [0.9, 1.0]"));
  EXPECT_THAT(parse_error("[optimizer]\nname = \"adam\"\n"),
              AllOf(HasSubstr("did you mean \"adamw\"?"),
                    HasSubstr("allowed: \"adamw\", \"sgd\", \"lion\", \"muon\"")));
  EXPECT_THAT(parse_error("[optimizer]\nname = \"loin\"\n"), HasSubstr("did you mean \"lion\"?"));
  EXPECT_THAT(parse_error("", {"model.name=lama"}), HasSubstr("did you mean \"llama\"?"));
  EXPECT_THAT(parse_error("", {"model.size=124"}), HasSubstr("did you mean \"124m\"?"));
  EXPECT_THAT(parse_error("[train]\nema = 1.0\n"), HasSubstr("allowed: at least 0 and below 1"));
  EXPECT_THAT(parse_error("[train]\nema = -0.5\n"), HasSubstr("train.ema = -0.5 is out of range"));
  EXPECT_THAT(parse_error("[train]\nema = 0.9999999999\n"), HasSubstr("in fp32, where it is 1"));
}

// Given values win, and the resolved text contains the values used.
TEST(Config, OptimizersHaveDefaultsOfTheirOwn) {
  const std::array<double, 2> of_adamw{0.9, 0.95}, of_lion{0.9, 0.99}, given{0.8, 0.9};
  EXPECT_EQ(parse("").optimizer.betas, of_adamw);
  const JobConfig lion = parse("[optimizer]\nname = \"lion\"\n");
  EXPECT_EQ(lion.optimizer.betas, of_lion);
  EXPECT_EQ(parse_config(to_toml(lion), "config.toml").optimizer.betas, of_lion);
  EXPECT_EQ(parse("[optimizer]\nname = \"lion\"\nbetas = [0.8, 0.9]\n").optimizer.betas, given);
  EXPECT_EQ(parse("", {"optimizer.betas=[0.9,0.95]", "optimizer.name=lion"}).optimizer.betas, of_adamw);
  const OptimizerSection muon = parse("[optimizer]\nname = \"muon\"\n").optimizer;
  EXPECT_EQ(muon.betas, of_adamw);
  EXPECT_EQ(muon.momentum, 0.95);
  EXPECT_TRUE(muon.nesterov);
  const OptimizerSection plain =
      parse("[optimizer]\nname = \"muon\"\nmomentum = 0.5\nnesterov = false\n").optimizer;
  EXPECT_EQ(plain.momentum, 0.5);
  EXPECT_FALSE(plain.nesterov);
}

// 1e39 is a finite double, but infinite in fp32, which runs compute with.
TEST(Config, NumbersMustHoldInFp32) {
  EXPECT_THAT(parse_error("[precision]\nscale_init = 1e39\n"),
              AllOf(HasSubstr("precision.scale_init = 1e+39 is out of range in fp32, where it is inf"),
                    StartsWith("job.toml:6:1: ")));
  EXPECT_THAT(parse_error("[optimizer]\nepsilon = 1e-50\n"),
              HasSubstr("optimizer.epsilon = 1e-50 is out of range in fp32, where it is 0"));
  EXPECT_THAT(parse_error("[optimizer]\nbetas = [0.9, 0.9999999999]\n"),
              HasSubstr("allowed: at least 0 and below 1"));
  EXPECT_THAT(parse_error("[precision]\nloss_scale = 1e-50\n"), HasSubstr("precision.loss_scale"));
}

TEST(Config, LossScaleIsAWordOrANumber) {
  EXPECT_EQ(to_word(parse("", {"precision.loss_scale=1024"}).precision.loss_scale), "1024");
  EXPECT_EQ(parse("[precision]\nloss_scale = 0.5\n").precision.loss_scale.scale, 0.5);
  EXPECT_EQ(parse("", {"precision.loss_scale=4096.0"}).precision.loss_scale.scale, 4096.0);
  EXPECT_EQ(parse("", {"precision.loss_scale=off"}).precision.loss_scale.kind, LossScaleConfig::Kind::kOff);
  for (const char* bad : {"0", "-1", "nan", "1e39", "dynamik", "12x", "true"}) {
    EXPECT_THAT(parse_error("", {std::string("precision.loss_scale=") + bad}),
                HasSubstr("precision.loss_scale"))
        << bad;
  }
}

TEST(Config, ABooleanMayBeLeftOpen) {
  const auto is_open = [](const std::string& more, const std::vector<std::string>& overrides = {}) {
    return parse(more, overrides).parallel.open.contains("keep_gathered");
  };
  const std::string given = "[parallel]\nkeep_gathered = true\n";
  EXPECT_TRUE(is_open(""));
  EXPECT_TRUE(is_open("[parallel]\nkeep_gathered = \"auto\"\n"));
  EXPECT_TRUE(is_open(given, {"parallel.keep_gathered=auto"}));
  EXPECT_FALSE(is_open(given));
  EXPECT_TRUE(parse(given).parallel.layout.keep_gathered);
  EXPECT_FALSE(is_open("", {"parallel.keep_gathered=false"}));
  EXPECT_THAT(to_toml(parse("")), HasSubstr("\nkeep_gathered = \"auto\"\n"));
  EXPECT_THAT(to_toml(parse("", {"parallel.keep_gathered=true"})), HasSubstr("\nkeep_gathered = true\n"));
  for (const char* bad : {"maybe", "1", "[true]"}) {
    EXPECT_THAT(parse_error("", {std::string("parallel.keep_gathered=") + bad}),
                HasSubstr("parallel.keep_gathered needs true, false or \"auto\", found "))
        << bad;
  }
}

TEST(Config, OpsAreOverriddenByName) {
  const JobConfig config = parse("[precision]\nops = { attention = \"fp32\", linear = \"tf32\" }\n");
  EXPECT_EQ(config.precision.ops.at("attention"), "fp32");
  EXPECT_EQ(config.precision.ops.at("linear"), "tf32");
  EXPECT_EQ(parse_config(to_toml(config), "resolved").precision.ops, config.precision.ops);
  EXPECT_EQ(parse("", {"precision.ops={ add = \"fp32\" }"}).precision.ops.at("add"), "fp32");
  for (const char* table :
       {"[precision]\nops.attention = \"fp32\"\n", "[precision.ops]\nattention = \"fp32\"\n"}) {
    EXPECT_EQ(parse(table).precision.ops.at("attention"), "fp32") << table;
  }
  EXPECT_THAT(parse_error("", {"precision.ops={ layernorm = \"fp32\" }"}),
              HasSubstr("there is no op 'layernorm'; did you mean 'layer_norm'?"));
  EXPECT_THAT(parse_error("", {"precision.ops={ layer_norm = \"tf32\" }"}),
              HasSubstr("layer_norm = \"tf32\" is not possible; allowed: \"fp32\""));
  EXPECT_THAT(parse_error("", {"precision.ops={ linear = \"bf16\" }"}),
              HasSubstr("linear = \"bf16\" is not possible; allowed: \"fp32\", \"tf32\""));
  EXPECT_THAT(parse_error("", {"precision.ops={ linear = \"int8\" }"}), HasSubstr("is not a precision"));
  EXPECT_THAT(parse_error("", {"precision.ops=attention"}), HasSubstr("needs a table of strings"));
  EXPECT_THAT(parse_error("[ops]\nattention = \"fp32\"\n"), HasSubstr("did you mean [precision.ops]?"));
}

TEST(Config, OverridesSetOneEntryOfATable) {
  const std::string ops = "[precision]\nops = { attention = \"fp32\" }\n";
  const JobConfig config = parse(ops, {"precision.ops.linear=tf32"});
  EXPECT_EQ(config.precision.ops,
            (std::map<std::string, std::string>{{"attention", "fp32"}, {"linear", "tf32"}}));
  EXPECT_EQ(parse(ops, {"precision.ops.attention=\"tf32\""}).precision.ops.at("attention"), "tf32");
  EXPECT_THAT(parse_error("", {"precision.ops.attentoin=fp32"}), HasSubstr("did you mean 'attention'"));
  EXPECT_THAT(parse_error("", {"precision.ops.attention=32"}),
              HasSubstr("precision.ops.attention needs a string, found the integer 32"));
}

TEST(Config, PrecisionKeysBelongTogether) {
  EXPECT_THAT(parse_error("", {"precision.grad_dtype=bf16", "parallel.reduction=fast"}),
              HasSubstr("needs parallel.reduction = \"canonical\""));
  EXPECT_THAT(
      parse_error("", {"precision.mode=fp16", "precision.grad_dtype=compute", "parallel.reduction=fast"}),
      HasSubstr("precision.grad_dtype"));
  parse("", {"precision.grad_dtype=compute", "parallel.reduction=fast"});  // with fp32, "compute" means fp32
  EXPECT_THAT(parse_error("", {"precision.min_scale=2", "precision.scale_init=1"}), HasSubstr("is above"));
  EXPECT_THAT(parse_error("", {"precision.scale_backoff=1.0"}), HasSubstr("allowed: above 0 and below 1"));
}

TEST(Config, SyntaxErrorsHaveAPlace) {
  EXPECT_THAT(parse_error("[train]\nsteps = = 3\n"), StartsWith("job.toml:6:"));
  EXPECT_THAT(parse_error("[train]\nsteps = 3\nsteps = 4\n"), StartsWith("job.toml:7:"));
}

TEST(Config, OverridesWin) {
  const JobConfig config = parse("[train]\nsteps = 12\n",
                                 {"train.steps=7", "optimizer.name=lion", "data.train=2024", "data.eval=a=b",
                                  "optimizer.betas=[0.5,0.6]", "checkpoint.resume=\"never\""});
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.optimizer.name, OptimizerConfig::Kind::kLion);
  EXPECT_EQ(config.data.train, "2024");
  EXPECT_EQ(config.data.eval, "a=b");
  EXPECT_EQ(config.optimizer.betas[1], 0.6);
  EXPECT_EQ(config.checkpoint.resume.kind, Resume::Kind::kNever);
}

TEST(Config, OverrideErrorsNameTheOption) {
  EXPECT_THAT(parse_error("", {"train.stesp=7"}),
              StartsWith("--set train.stesp=7: unknown key train.stesp; did you mean train.steps?"));
  EXPECT_THAT(parse_error("", {"train.steps"}), HasSubstr("needs section.key=value"));
  EXPECT_THAT(parse_error("", {"steps=7"}), HasSubstr("did you mean train.steps?"));
  EXPECT_THAT(parse_error("", {"train.steps=seven"}),
              HasSubstr("needs an integer, found the string \"seven\""));
  EXPECT_THAT(parse_error("", {"trian.steps=7"}), HasSubstr("did you mean [train]?"));
  EXPECT_THAT(parse_error("", {"train.steps=7\nx=1"}), HasSubstr("needs an integer"));
}

TEST(Config, ResolvedTextReadsBack) {
  JobConfig config = parse("[optimizer]\nlr = 0.0001\nepsilon = 1e-12\n");
  config.data.train = "a \"quoted\" \\ path\twith\x01 control";
  config.parallel.memory_limit = 123456789012;
  config.optimizer.weight_decay = 1.0 / 3.0;
  const std::string text = to_toml(config);
  EXPECT_EQ(to_toml(parse_config(text, "config.toml")), text);
  EXPECT_EQ(parse_config(text, "config.toml").data.train, config.data.train);
  EXPECT_EQ(parse_config(text, "config.toml").optimizer.weight_decay, 1.0 / 3.0);
}

/// A word from the key's rule other than `word`; a number if the rule lists no other.
std::string another_word(const ConfigKey& key, const std::string& word) {
  std::istringstream rule(key.rule.text);
  for (std::string part; std::getline(rule, part, '"') && std::getline(rule, part, '"');) {
    if (part != word) return part;
  }
  return "7";
}

// Every key is parsed, written and distinct: two keys with one member would fail here.
TEST(Config, EveryKeyReachesItsOwnMember) {
  for (const ConfigKey& key : config_keys()) {
    if (!key.rule.missing_feature.empty()) continue;  // only one allowed value
    JobConfig config;
    const std::string before = to_toml(config);
    const bool in_text = key.scope_without(config) == nullptr;
    ConfigValue changed = key.get(config);
    if (auto* b = std::get_if<bool>(&changed)) *b = !*b;
    if (auto* i = std::get_if<std::int64_t>(&changed)) *i += 1;
    if (auto* d = std::get_if<double>(&changed)) *d = *d / 2 + 0.125;
    if (auto* s = std::get_if<std::string>(&changed)) *s = another_word(key, *s);
    if (key.type == KeyType::kBooleanOrAuto) changed = true;
    if (auto* p = std::get_if<std::array<double, 2>>(&changed)) *p = {0.25, 0.5};
    if (auto* p = std::get_if<std::array<double, 3>>(&changed)) *p = {0.25, 0.5, 0.75};
    if (auto* t = std::get_if<std::map<std::string, std::string>>(&changed)) (*t)["linear"] = "fp32";
    if (auto* l = std::get_if<std::vector<std::string>>(&changed)) l->push_back("head*");
    if (auto* t = std::get_if<std::map<std::string, double>>(&changed)) (*t)["head*"] = 0.5;
    if (auto* l = std::get_if<std::vector<std::int64_t>>(&changed)) l->push_back(3);
    key.set(config, changed);
    EXPECT_EQ(key.get(config), changed) << key.full_name();
    int num_changed = 0;
    const JobConfig defaults;
    for (const ConfigKey& other : config_keys()) num_changed += other.get(config) != other.get(defaults);
    EXPECT_EQ(num_changed, 1) << key.full_name();
    EXPECT_EQ(to_toml(config) != before, in_text) << key.full_name();
  }
}

TEST(Config, DefaultsObeyTheRules) {
  const JobConfig defaults;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_FALSE(key.help.empty()) << key.full_name();
    if (key.rule.allows) {
      EXPECT_TRUE(key.rule.allows(key.get(defaults))) << key.full_name();
    }
  }
}

TEST(Config, LoadNamesTheFile) {
  const testing::TemporaryFolder scratch;
  const auto path = scratch / "job.toml";
  testing::write_file(path, std::string(kJob) + "[train]\nstepz = 1\n");
  EXPECT_THAT(error_message([&] { load_config(path); }), StartsWith(path.string() + ":6:1: "));
  EXPECT_THAT(error_message([&] { load_config(scratch / "absent.toml"); }),
              HasSubstr("absent.toml: No such file"));
  EXPECT_THAT(error_message([&] { load_config(scratch.path()); }), HasSubstr("it is a folder"));
  EXPECT_THAT(error_message([&] { load_config("/dev/zero"); }), HasSubstr("/dev/zero: it is a device"));
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_message([&] { load_config(scratch / "pipe"); }), HasSubstr("pipe: it is a pipe"));
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(Config, NestingIsLimited) {
  const std::string dots = repeated("a.", 50'000);
  EXPECT_EQ(parse_error(dots + "a = 1\n"), "job.toml: nested 50000 levels deep; the limit is 32");
  EXPECT_THAT(parse_error("[" + dots + "a]\n"), HasSubstr("nested 50000 levels"));
  EXPECT_THAT(parse_error("[train]\nsteps = " + repeated("[", 50'000)), HasSubstr("nested 50000 levels"));
  for (const std::string& value : {"{" + dots + "a = 1}", repeated("[", 50'000), repeated("{a=", 50'000)}) {
    EXPECT_THAT(parse_error("", {"train.steps=" + value}),
                AllOf(StartsWith("--set train.steps="), HasSubstr("train.steps needs an integer")));
  }
}

TEST(Config, MessagesStayShort) {
  const std::string a(900'000, 'a');
  EXPECT_THAT(parse_error("[train]\n" + a + " = 1\n"), HasSubstr("aaa...; did you mean "));
  for (const std::string& text :
       {"[train]\n" + a + " = 1\n", "[" + a + "]\n", "[train]\nsteps = \"" + a + "\"\n",
        "[optimizer]\nname = \"" + a + "\"\n", "[train]\n\"a " + a + "\" = 1\n"}) {
    EXPECT_LT(parse_error(text).size(), 3000u) << text.substr(0, 30);
  }
}

// A checkpoint stores the configuration as JSON, and a resumed run parses it as TOML: both require UTF-8.
TEST(Config, OverridesAreUtf8) {
  EXPECT_EQ(parse("", {"data.train=\xC3\xA9"}).data.train, "\xC3\xA9");
  EXPECT_THAT(parse_error("", {"data.train=a\xFF"}), StartsWith("--set data.train=a\\xFF: is not UTF-8"));
}

// A value that is not TOML is a string, with any number of dots.
TEST(Config, OverridesMayHaveManyDots) {
  const std::string path = repeated("../", 40) + "tokens";
  EXPECT_EQ(parse("", {"data.train=" + path}).data.train, path);
}

}  // namespace
}  // namespace trireme
