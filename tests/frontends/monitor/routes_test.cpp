// Routes: what is answered, what is refused, and by which names a server may be called.
#include "frontends/monitor/routes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/monitor/records.h"

namespace gemel::monitor {
namespace {

using namespace gemel::testing;

class Routes : public ::testing::Test {
 protected:
  Routes() : index_(with_runs()) { index_.refresh(); }
  RunIndex::Options with_runs() const {
    folder_.append("a", start_line() + step_lines(1, 5));
    return folder_.options();
  }
  Response ask(const std::string& target) const { return answer(index_, target); }
  std::string id() const { return run_named(index_, "a")["id"]; }
  RecordFolder folder_;
  RunIndex index_;
};

TEST_F(Routes, the_page_and_all_that_it_names_are_there) {
  const Response page = ask("/");
  ASSERT_EQ(page.status, 200u);
  EXPECT_EQ(page.type, "text/html; charset=utf-8");
  int named = 0;
  for (const std::string& mark : {std::string("src=\""), std::string("rel=\"stylesheet\" href=\"")})
    for (auto at = page.body.find(mark); at != page.body.npos; at = page.body.find(mark, at)) {
      at += mark.size();
      const Response file = ask("/" + page.body.substr(at, page.body.find('"', at) - at));
      EXPECT_EQ(file.status, 200u);
      EXPECT_GT(file.body.size(), 100u);
      ++named;
    }
  EXPECT_EQ(named, 9);
}

TEST_F(Routes, curves_come_side_by_side_and_null_where_there_is_none) {
  const Response r = ask("/api/curves?of=" + id() + ".0," + id() + ".63,0123456789abcdef.0," + id() + ".0&from=2&to=4&width=0");
  ASSERT_EQ(r.status, 200u) << r.body;
  EXPECT_EQ(r.body, R"([{"width":1,"x":[2,3,4],"mean":[2,3,4]},null,null,{"width":1,"x":[2,3,4],"mean":[2,3,4]}])");
  EXPECT_EQ(ask("/api/curves?width=4&of=" + id() + ".0&from=0&to=9").body, R"([{"width":4,"x":[1.5,5.5],"mean":[2,4.5],"low":[1,4],"high":[3,5]}])");
}

TEST_F(Routes, runs_and_what_they_were_given_are_json) {
  const auto runs = nlohmann::json::parse(ask("/api/runs?since=0").body);
  EXPECT_EQ(runs["runs"].size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(ask("/api/about?run=" + id()).body)["start"]["model"], "lenet");
  EXPECT_EQ(nlohmann::json::parse(ask("/api/runs?since=" + std::to_string(index_.version())).body)["runs"].size(), 0u);
}

TEST_F(Routes, wrong_requests_are_refused_with_what_is_accepted) {
  std::string many;
  for (int i = 0; i < 513; ++i) many += (i ? "," : "") + id() + ".0";
  const std::string curve = "/api/curves?of=" + id();
  const std::vector<std::string> targets{"/api/runs?since=-1",
                                         "/api/runs?since=1&since=2",
                                         "/api/runs?x",
                                         "/api/about",
                                         "/api/about?run=../../../../etc",
                                         "/api/about?run=" + id() + "0",
                                         "/api/curves",
                                         curve + "&from=0&to=1&width=0",
                                         curve + ".0&from=1&to=0&width=0",
                                         curve + ".0&from=nan&to=1&width=0",
                                         curve + ".0&from=0&to=1&width=inf",
                                         curve + ".0&from=-1e300&to=1e300&width=0",
                                         curve + ".x&from=0&to=1&width=0",
                                         "/api/curves?of=&from=0&to=1&width=0",
                                         "/api/curves?of=" + many + "&from=0&to=1&width=0"};
  for (const std::string& target : targets) {
    const Response r = ask(target);
    EXPECT_EQ(r.status, 400u) << target.substr(0, 200);
    EXPECT_NE(r.body.find("accepted: "), std::string::npos) << r.body;
  }
  EXPECT_EQ(nlohmann::json::parse(ask("/api/curves?of=" + id() + ".-1&from=0&to=1&width=0").body)[0], nullptr);
  EXPECT_EQ(ask("/api/about?run=0123456789abcdef").status, 404u);
}

TEST_F(Routes, no_path_leads_into_the_file_system) {
  for (const char* target : {"",
                             "/..",
                             "/../",
                             "/../../etc/passwd",
                             "/%2e%2e/%2e%2e/etc/passwd",
                             "//etc/passwd",
                             "/a/run.jsonl",
                             "/run.jsonl",
                             "/index.html",
                             "/page.css?x",
                             "/?x=1",
                             "page.css",
                             "/page.css/",
                             "/page.css%00",
                             "/API/runs",
                             "/api",
                             "/api/",
                             "/api/runs/",
                             "http://localhost/",
                             "*",
                             "/\\..\\..",
                             "/.",
                             "/page.js\r\n"})
    EXPECT_EQ(ask(target).status, 404u) << target;
}

TEST(MonitorHostNames, at_a_loopback_address_only_loopback_names_are_accepted) {
  const HostNames names("127.0.0.1", {"127.0.0.1", "machine"});
  for (const char* host : {"localhost", "LocalHost:6336", "127.0.0.1", "127.0.0.1:80", "127.9.9.9", "[::1]:6336", "[::1]"})
    EXPECT_TRUE(names.accept(host)) << host;
  for (const char* host : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "machine", "10.0.0.1", "localhost:80@evil", "[::1].evil",
                           "[::1", "::1", "127.evil.example", "0.0.0.0", "[::2]"})
    EXPECT_FALSE(names.accept(host)) << host;
}

TEST(MonitorHostNames, elsewhere_addresses_and_the_machines_own_names_are_accepted_too) {
  const HostNames names("0.0.0.0", {"0.0.0.0", "Machine", "machine.lan"});
  for (const char* host : {"localhost:1", "10.0.0.1:6336", "machine:6336", "MACHINE.lan", "[fe80::1]:6336"}) EXPECT_TRUE(names.accept(host)) << host;
  for (const char* host : {"evil.example", "machine.evil.example", "machine.lan.", ""}) EXPECT_FALSE(names.accept(host)) << host;
}

}  // namespace
}  // namespace gemel::monitor
