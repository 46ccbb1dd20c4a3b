// Graph files: what comes back is what was saved; damaged ones are refused.
#include "engine/files/graph_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "engine/base/error.h"
#include "engine/files/safetensors.h"
#include "engine/graph/run/executor.h"
#include "engine/ops/ops.h"
#include "frontends/graph/graph.h"
#include "tests/support/faults/full_disk.h"
#include "tests/support/formats/graph_file_text.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace gemel {
namespace {

using testing::message_of;
using List = std::vector<double>;

/// y = a while loop over tanh(x w) and a branch, with a variable, a constant and scopes.
Program example(Session& session) {
  graph::Graph graph(session, "saved");
  const auto building = graph.as_default();
  const Value x = graph.placeholder(f32({2, 2}), "x");
  const Value w = graph.variable(session.tensor(f32({2, 2}), List{0.5, -1, 2, 0.25}), "w");
  const Value three = session.tensor(i64({}), List{3}), one = session.tensor(i64({}), List{1});
  const NameScope scope(session, "recurrent");
  const Value y = while_loop([&](const Values& c) { return less(c[0], three); },
                             [&](const Values& c) -> Values {
                               return {c[0] + one, tanh(matmul(c[1], w))};
                             },
                             {full(session, i64({}), 0), x}, 5)[1];
  const Value z = cond(
      less(sum(y), full(session, f32({}), 1e30)), [&]() -> Values { return {sum(y, {-1})}; }, [&]() -> Values { return {sum(x, {0})}; })[0];
  return graph.part({z, graph.gradients(z, {w})[0]}).program;
}

Values run(Session& session, const Program& program) {
  return Executor(session, std::make_shared<const Program>(program)).run({session.tensor(f32({2, 2}), List{1, 2, 3, 4})});
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(GraphFile, a_loaded_graph_computes_the_same_and_saves_as_the_same) {
  const testing::TemporaryFolder folder;
  const auto session = Session::reference(), other = Session::reference();
  const Program saved = example(*session);
  save_graph(saved, folder.path() / "a.json");
  const Program loaded = load_graph(*other, folder.path() / "a.json").program;
  EXPECT_EQ(to_json(loaded), to_json(saved));
  const Values expected = run(*session, saved), got = run(*other, loaded);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(read(got[i]), read(expected[i]));
}

TEST(GraphFile, a_variable_that_nothing_uses_keeps_its_spec) {
  const testing::TemporaryFolder folder;
  const auto session = Session::reference();
  graph::Graph graph(*session, "saved");
  graph.variable(session->tensor(i64({2, 3}), List{1, 2, 3, 4, 5, 1e15}), "steps");
  save_graph(graph.program(), folder.path() / "a.json");
  const SafetensorsFile file(folder.path() / "a.safetensors");
  ASSERT_TRUE(file.find("steps"));
  EXPECT_EQ(file.find("steps")->spec, i64({2, 3}));
  const Program loaded = load_graph(*session, folder.path() / "a.json").program;
  const auto slot = std::find_if(loaded.slots.begin(), loaded.slots.end(), [](const auto& s) { return s.name == "steps"; });
  ASSERT_NE(slot, loaded.slots.end());
  EXPECT_EQ(read(Value(slot->spec, slot->external)), (List{1, 2, 3, 4, 5, 1e15}));
}

TEST(GraphFile, the_listing_and_the_drawing_name_what_a_reader_looks_for) {
  const auto session = Session::reference();
  const Program program = example(*session);
  for (const std::string& text : {to_json(program), to_dot(program)})
    for (const char* part : {"while", "conditional", "float32 [2, 2]", "recurrent", "w"}) EXPECT_NE(text.find(part), std::string::npos) << part;
  EXPECT_EQ(to_dot(program).rfind("digraph program {", 0), 0u);
}

TEST(GraphFile, an_operator_made_for_a_program_is_not_saved) {
  const auto session = Session::reference();
  Program program = capture(*session, {f32({2})}, [](const Values& v) -> Values { return {exp(v[0])}; });
  const auto own = std::make_shared<OpDef>(exp_def());
  program.code[0].owner = own;
  program.code[0].op = own.get();
  EXPECT_THROW(to_json(program), UsageError);
}

/// A graph in a file, whose text tests change.
struct SavedExample {
  const testing::TemporaryFolder folder;
  const std::unique_ptr<Session> session = Session::reference();
  const std::filesystem::path path = folder.path() / "b.json";
  std::string text;

  SavedExample() {
    save_graph(example(*session), path);
    text = contents(path);
  }
  void load(const std::string& changed) const {
    std::ofstream(path) << changed;
    load_graph(*session, path);
  }
};

/// What load_graph says of the file after a change of its text.
std::string after_change(const std::string& from, const std::string& to) {
  const SavedExample saved;
  std::string text = saved.text;
  const std::size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  if (found != std::string::npos) text.replace(found, from.size(), to);
  testing::sign(text);
  return message_of<DataError>([&] { saved.load(text); });
}

struct Change {
  const char *from, *to, *message;
};
class HostileGraphFile : public ::testing::TestWithParam<Change> {};

TEST_P(HostileGraphFile, is_refused_with_what_is_wrong) {
  const auto [from, to, message] = GetParam();
  EXPECT_NE(after_change(from, to).find(message), std::string::npos) << after_change(from, to);
}
INSTANTIATE_TEST_SUITE_P(
    changes, HostileGraphFile,
    ::testing::Values(Change{"gemel-graph", "other", "'format' is not gemel-graph"}, Change{"\"version\": 2", "\"version\": 3", "'version' is not 2"},
                      Change{"\"op\":\"less\"", "\"op\":\"lesser\"", "there is no operator 'lesser'"},
                      Change{"\"op\":\"less\"", "\"op\":\"exp\"", "2 inputs; accepted: 1"},
                      Change{"\"op\":\"less\"", "\"op\":\"reshape\"", "only shapes another use"},
                      Change{"{\"slot\":0,", "{\"slot\":100000,", "'slot' is 100000"}, Change{"{\"slot\":0,", "{\"slot\":-1,", "'slot' is -1"},
                      Change{"float32 [2, 2]", "float32 [2, 3]", "load_graph"}, Change{"float32 [2, 2]", "float32 [4611686018427387904, 4]", "too large"},
                      Change{"float32 [2, 2]", "float9 [2, 2]", "'float9' is no element type"}, Change{"{\"bytes\":16", "{\"bytes\":4", "of 4 bytes"},
                      Change{"\"tensor\":\"w\"", "\"tensor\":\"v\"", "tensor 'v' is not in"},
                      Change{"\"max_trips\":{\"integer\":5}", "\"max_trips\":{\"real\":5}", "'integer' is missing"},
                      Change{"\"max_trips\":{\"integer\":5}", "\"most_trips\":{\"integer\":5}", "'max_trips' is missing"},
                      Change{"\"carried\":{\"integer\":2}", "\"carried\":{\"integer\":-2}", "carried is -2"},
                      Change{"\"op\":\"less\"", "\"after\":[99],\"op\":\"less\"", "runs after instruction 99; accepted: another one of "},
                      Change{"\"code\":", "\"code\"", "b.json: it is no JSON"}));

TEST(GraphFile, with_another_number_in_it_is_refused) {
  const SavedExample saved;
  int tried = 0;
  for (std::size_t i = saved.text.find("\"slots\":"); i < saved.text.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(saved.text[i]))) continue;
    std::string changed = saved.text;
    changed[i] = changed[i] == '7' ? '3' : '7';
    EXPECT_THROW(saved.load(changed), DataError) << "byte " << i;
    ++tried;
  }
  EXPECT_GT(tried, 50);
}

TEST(GraphFile, a_file_that_ends_early_is_refused) {
  const SavedExample saved;
  for (std::size_t bytes = 0; bytes < saved.text.size() - 1; bytes += 97) EXPECT_THROW(saved.load(saved.text.substr(0, bytes)), DataError) << bytes;
  EXPECT_THROW(load_graph(*saved.session, saved.folder.path() / "missing.json"), DataError);
}

/// A graph with one variable, saved with two contents of it, in turn.
class TwoSaves : public ::testing::Test {
 protected:
  TwoSaves() {
    for (const double number : {1, 2}) {
      save(number);
      texts.push_back(contents(path));
      tensors.push_back(contents(beside("a.safetensors")));
    }
  }
  std::filesystem::path beside(const char* name) const { return folder.path() / name; }
  void save(double number) {
    graph::Graph graph(*session, "saved");
    graph.variable(session->tensor(f32({1}), List{number}), "w");
    graph.save(path);
  }
  static void write(const std::filesystem::path& to, const std::string& bytes) { std::ofstream(to, std::ios::binary) << bytes; }
  List loaded() { return read(graph::Graph::load(*session, path)->value("w")); }

  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "a.json";
  std::unique_ptr<Session> session = Session::reference();
  std::vector<std::string> texts, tensors;
};

TEST_F(TwoSaves, files_of_two_saves_are_refused) {
  write(beside("a.safetensors"), tensors[0]);
  EXPECT_EQ(message_of<DataError>([&] { loaded(); }),
            "load_graph: " + path.string() + ": " + beside("a.safetensors").string() + " is not what was saved with it; accepted: both files of one save");
  write(path, texts[0]);
  EXPECT_EQ(loaded(), List{1});
}

TEST_F(TwoSaves, a_graph_loads_while_another_is_being_built) {
  graph::Graph other(*session, "other");
  std::unique_ptr<graph::Graph> loading;
  {
    const auto building = other.as_default();
    loading = graph::Graph::load(*session, path);
  }
  EXPECT_EQ(read(loading->value("w")), List{2});
}

TEST_F(TwoSaves, a_save_that_is_cut_short_leaves_the_one_before_it) {
  EXPECT_FALSE(std::filesystem::exists(beside("a.last.safetensors")));
  write(path, texts[0]);  // the tensors are the second save's already
  write(beside("a.last.safetensors"), tensors[0]);
  EXPECT_EQ(loaded(), List{1});
  ASSERT_GT(texts[0].size(), tensors[0].size());
  {
    const testing::FilesUpTo limit(tensors[0].size());
    EXPECT_THROW(save(3), DataError);
  }
  EXPECT_NE(contents(beside("a.safetensors")), tensors[1]);
  EXPECT_EQ(loaded(), List{1}) << "cut short again";
  save(4);
  EXPECT_EQ(loaded(), List{4});
  EXPECT_FALSE(std::filesystem::exists(beside("a.last.safetensors")));
}

TEST_F(TwoSaves, a_save_that_was_all_but_through_loads) {
  write(beside("a.last.safetensors"), tensors[0]);
  EXPECT_EQ(loaded(), List{2});
}

}  // namespace
}  // namespace gemel
