#include "launcher/supervise/host_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<Host> kThree = {
    {.name = "a", .slots = 2}, {.name = "b", .slots = 2}, {.name = "c", .slots = 2}};

/// Attempts that these hosts ended; "": no host to blame.
std::vector<Attempt> struck(const std::vector<std::string>& hosts) {
  std::vector<Attempt> attempts;
  for (const std::string& host : hosts)
    attempts.push_back({.end = Attempt::End{.exit_code = 137, .host = host}});
  return attempts;
}

std::vector<std::string> used(const HostQuestion& question, const std::vector<std::string>& strikes) {
  return names_of(choose_hosts(question, struck(strikes)).used);
}

TEST(HostChoice, HoldsTheLastHostsBack) {
  const HostChoice choice = choose_hosts({.hosts = kThree, .num_spares = 1}, {});
  EXPECT_THAT(names_of(choice.used), ElementsAre("a", "b"));
  EXPECT_THAT(names_of(choice.spares), ElementsAre("c"));
  EXPECT_THAT(names_of(choose_hosts({.hosts = kThree}, {}).used), ElementsAre("a", "b", "c"));
  EXPECT_EQ(num_slots(choice.used), 4);
}

TEST(HostChoice, ASpareTakesThePlaceOfAHostThatStruckUntilOthersStrikeToo) {
  const HostQuestion question{.hosts = kThree, .num_spares = 1};
  EXPECT_THAT(used(question, {"b"}), ElementsAre("a", "c"));
  EXPECT_THAT(used(question, {"b", ""}), ElementsAre("a", "c"));
  EXPECT_THAT(used(question, {"b", "c"}), ElementsAre("a", "b")) << "equal again: the order of the file";
  EXPECT_THAT(used(question, {"b", "c", "a"}), ElementsAre("a", "b"));
  EXPECT_THAT(used(question, {"a"}), ElementsAre("b", "c"));
  EXPECT_THAT(names_of(choose_hosts(question, struck({"b"})).spares), ElementsAre("b"));
}

TEST(HostChoice, ASpareTakesThePlaceOfAHostThatIsSilent) {
  EXPECT_THAT(used({.hosts = kThree, .num_spares = 1, .missing = {"a"}}, {}), ElementsAre("b", "c"));
  const HostChoice none = choose_hosts({.hosts = kThree, .num_spares = 1, .missing = {"a", "c"}}, {});
  EXPECT_THAT(names_of(none.used), ElementsAre("b"));
  EXPECT_THAT(none.spares, IsEmpty());
  EXPECT_THAT(used({.hosts = kThree, .missing = {"a", "b", "c"}}, {}), IsEmpty());
  EXPECT_THAT(used({.hosts = kThree, .num_spares = 1, .missing = {"a"}}, {"c"}), ElementsAre("b", "c"))
      << "one that struck is better than none";
}

TEST(HostChoice, WithoutASpareAHostThatStrikesTwiceMoreThanOthersIsLeftOutWhereTheyAreEnough) {
  EXPECT_THAT(used({.hosts = kThree, .min_slots = 4}, {"b"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(used({.hosts = kThree, .min_slots = 4}, {"b", "b"}), ElementsAre("a", "c"));
  EXPECT_THAT(used({.hosts = kThree, .min_slots = 5}, {"b", "b"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(used({.hosts = kThree, .min_slots = 4}, {"b", "b", "a"}), ElementsAre("a", "c"));
  EXPECT_THAT(used({.hosts = kThree, .min_slots = 4}, {"b", "b", "a", "c"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names_of(choose_hosts({.hosts = kThree, .min_slots = 4}, struck({"b", "b"})).left_out),
              ElementsAre("b"));
}

TEST(HostList, IsWrittenAsItIsRead) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "hosts";
  std::ofstream(file) << "# two\na slots=3 max_slots=4\n\nb  # slots=7\na slots=2\nc slots=0\n";
  const std::vector<Host> hosts = read_hosts(file);
  EXPECT_THAT(hosts, ElementsAre(Host{"a", 5, " max_slots=4"}, Host{"b", 1, ""}));
  EXPECT_EQ(num_slots(hosts), 6);
  EXPECT_EQ(to_text(hosts), "a (5), b (1)");
  write_hosts(file, hosts);
  EXPECT_EQ(read_hosts(file), hosts);
  std::ofstream(file) << "a slots=3\nb slots=two\n";
  try {
    read_hosts(file);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("hosts:2: "));
  }
  EXPECT_THROW(read_hosts(folder.path() / "none"), Error);
}

TEST(HostList, NamesThatAreNoneAreRefused) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "hosts";
  for (const char* name : {"../../etc/x", "a/b", "-oProxyCommand=x", "a;b", "$(id)", "a,b", "user@a", ".",
                           "..", "a\x1b[2J", "a\xc2\xad", "`id`", "+n0"}) {
    testing::write_file(file, std::string("good slots=1\n") + name + " slots=1\n");
    EXPECT_THAT(testing::message_of([&] { read_hosts(file); }), ::testing::HasSubstr("hosts:2: ")) << name;
  }
  testing::write_file(file, std::string(241, 'a') + "\n");
  EXPECT_THROW(read_hosts(file), Error);
  testing::write_file(file, "node-1_a.example.org\n10.0.0.1\n::1\n[fe80::1]\n");
  EXPECT_EQ(read_hosts(file).size(), 4u);
}

TEST(HostList, NamesThatShareTheirFirstLabelAreDistinguished) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "hosts";
  const auto options = [&](const std::string& content, std::vector<std::string> mpirun = {"mpirun"}) {
    testing::write_file(file, content);
    return naming_options(read_hosts(file), mpirun);
  };
  const auto keeps_domains = ElementsAre("--mca", "orte_keep_fqdn_hostnames", "1");
  EXPECT_THAT(options("node1.a.org slots=2\nnode1.b.org slots=2\n"), keeps_domains);
  EXPECT_THAT(options("a.x\nb.x\nc.x\nb.y\n"), keeps_domains);
  EXPECT_THAT(options("node1.a.org\nnode1.b.org\n", {"mpirun", "--mca", "orte_keep_fqdn_hostnames", "0"}),
              IsEmpty());
  EXPECT_THAT(options("node1.a.org slots=1\nnode2.a.org\nnode1.a.org slots=1\n"), IsEmpty());
  EXPECT_THAT(options("10.0.0.1\n10.0.0.2\nfe80::1\nfe80::2\n"), IsEmpty()) << "addresses have no labels";
  testing::write_file(file, "node1.a.org\nnode2\nnode1\n");
  try {
    read_hosts(file);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("node1 and node1.a.org may be one host or two"));
  }
}

}  // namespace
}  // namespace trireme
