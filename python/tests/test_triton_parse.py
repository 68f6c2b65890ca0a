"""The parser of Triton's IR: forms of its text, and errors for others."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import pytest

import cubeyard
from cubeyard.triton._ir import Line, Type
from cubeyard.triton._parse import parse

TEXT = """
#loc = loc(unknown)
#loc1 = loc("/home/author/kernels.py":3:0)
module {
  tt.func public @sums(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc(#loc1), %n: i32 loc(#loc1)) attributes {noinline = false} {
BODY
    tt.return loc(#loc2)
  } loc(#loc1)
} loc(#loc)
#loc2 = loc("/home/author/kernels.py":9:4)
#loc3 = loc("/usr/lib/triton/language/standard.py":7:1)
#loc4 = loc(callsite(#loc3 at #loc2))
#loc5 = loc("total"(#loc4))
#loc6 = loc("/home/author/kernels.py":5:2 to :9)
"""


def parsed(*body):
    return parse(TEXT.replace("BODY", "\n".join(body)))


def operations(*body):
    return parsed(*body).body.operations[:-1]


@pytest.mark.parametrize(
    ("text", "of", "value"),
    [
        ("1.500000e+00 : f32", Type("f32"), 1.5),
        ("-2 : i64", Type("i64"), -2),
        ("true", Type("i1"), True),
        ("dense<-1.000000e-05> : tensor<64x32xf16>", Type("f16", (64, 32)), -1e-5),
        ("dense<0xFF800000> : tensor<8xf32>", Type("f32", (8,)), {"bits": 0xFF800000}),
        ("dense<false> : tensor<4xi1>", Type("i1", (4,)), False),
        ("{tt.note} 7 : i32", Type("i32"), 7),
    ],
)
def test_constants(text, of, value):
    kernel = parsed(f"%c = arith.constant {text} loc(#loc2)")
    (operation,) = kernel.body.operations[:-1]
    assert kernel.types[operation.results[0]] == of and operation.attributes["value"] == value


def test_a_constant_of_several_elements_is_refused():
    with pytest.raises(cubeyard.CubeyardError, match="several elements"):
        parsed("%c = arith.constant dense<[1, 2]> : tensor<2xi32> loc(#loc2)")


def test_operands_words_attributes_and_types_in_any_order():
    splat, moved, loaded, compared = operations(
        "%p = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>> loc(#loc2)",
        "%q = tt.addptr %p, %n {tt.divisibility = dense<8> : tensor<1xi32>} : tensor<8x!tt.ptr<f32>>, i32 loc(#loc2)",
        "%v = tt.load %q, %n cacheModifier = ca {isVolatile = true} : tensor<8x!tt.ptr<f32>> loc(#loc2)",
        "%w = arith.cmpf oeq, %v, %v fastmath<nnan> : tensor<8xf32> loc(#loc2)",
    )
    assert moved.operands == [splat.results[0], 1] and loaded.operands == [moved.results[0], 1]
    assert loaded.attributes["cacheModifier"] == "ca" and loaded.attributes["isVolatile"] is True
    assert compared.attributes["words"][0] == "oeq"


def test_types_of_results_follow_from_those_of_operands():
    kernel = parsed(
        "%p = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>> loc(#loc2)",
        "%v = tt.load %p : tensor<8x!tt.ptr<f32>> loc(#loc2)",
        "%w = arith.cmpf oeq, %v, %v : tensor<8xf32> loc(#loc2)",
        "%a, %b = tt.split %v : tensor<4x2xf32> -> tensor<4xf32> loc(#loc2)",
        "%d = tt.make_tensor_descriptor %x, [%n, %n], [%n, %n] : <f32>, <16x8xf32> loc(#loc2)",
    )
    found = [kernel.types[one] for operation in kernel.body.operations for one in operation.results]
    tiles = [Type("ptr", (8,), "f32"), Type("f32", (8,)), Type("i1", (8,)), Type("f32", (4,)), Type("f32", (4,))]
    assert found == [*tiles, Type("desc", (16, 8), "f32")]


def test_regions_of_loops_branches_and_reductions():
    loop, branch = operations(
        "%r:2 = scf.for %i = %n to %n step %n iter_args(%a = %n, %b = %n) -> (i32, i32)  : i32 {",
        '  %t = "tt.reduce"(%a) <{axis = 1 : i32}> ({',
        "  ^bb0(%u: i32 loc(#loc1), %v: i32 loc(#loc1)):",
        "    %s = arith.addi %u, %v : i32 loc(#loc3)",
        "    tt.reduce.return %s : i32 loc(#loc4)",
        "  }) : (i32) -> i32 loc(#loc4)",
        "  scf.yield %t, %b : i32, i32 loc(#loc2)",
        "} {tt.num_stages = 2 : i32} loc(#loc2)",
        "%z = scf.if %n -> (i32) {",
        "  scf.yield %r#1 : i32 loc(#loc2)",
        "} else {",
        "  scf.yield %n : i32 loc(#loc2)",
        "} loc(#loc6)",
    )
    reduction, yielded = loop.regions[0].operations
    assert loop.operands == [1] * 5 and loop.attributes["tt.num_stages"] == 2 and reduction.attributes["axis"] == 1
    assert yielded.operands == [reduction.results[0], loop.regions[0].arguments[2]] and len(branch.regions) == 2
    assert branch.regions[0].operations[0].operands == [loop.results[1]]


def test_paths_of_a_jump_that_meet_are_a_branch():
    branch, after, end = parsed(
        "cf.cond_br %n, ^bb1(%n : i32), ^bb2(%n : i32) loc(#loc2)",
        "^bb1(%k: i32 loc(#loc1)):  // pred: ^bb0",
        "  %y = arith.addi %k, %k : i32 loc(#loc2)",
        "  cf.br ^bb2(%y : i32) loc(#loc2)",
        "^bb2(%z: i32 loc(#loc1)):  // 2 preds: ^bb0, ^bb1",
        "  %w = arith.addi %z, %n : i32 loc(#loc2)",
    ).body.operations
    assert (branch.name, branch.operands, end.name) == ("scf.if", [1], "tt.return")
    names = [[one.name for one in region.operations] for region in branch.regions]
    assert names == [["arith.addi", "scf.yield"], ["scf.yield"]] and branch.regions[0].operations[0].operands == [1, 1]
    assert after.operands == [branch.results[0], 1]


def test_a_path_that_may_return_tells_whether_it_goes_on():
    branch, after, end = parsed(
        "cf.cond_br %n, ^bb1, ^bb3(%n : i32) loc(#loc2)",
        "^bb1:  // pred: ^bb0",
        "  cf.cond_br %n, ^bb2, ^bb3(%n : i32) loc(#loc2)",
        "^bb2:  // pred: ^bb1",
        "  tt.return loc(#loc2)",
        "^bb3(%z: i32 loc(#loc1)):  // 2 preds: ^bb0, ^bb1",
        "  %w = arith.addi %z, %n : i32 loc(#loc2)",
    ).body.operations
    goes_on, number = branch.results
    assert after.operands == [goes_on] and after.regions[0].operations[0].operands == [number, 1]
    inner, _ = branch.regions[0].operations
    flags = [region.operations[0].attributes["value"] for region in (*inner.regions, branch.regions[1])]
    assert flags == [False, True, True] and end.name == "tt.return"


def test_a_function_that_is_not_inlined_is_a_region_of_its_call():
    function = """ loc(#loc2)
    tt.return loc(#loc2)
  } loc(#loc1)
  tt.func private @"half of"(%x: i32 loc(#loc1)) -> (i32, i32) attributes {noinline = false} {
    cf.cond_br %x, ^bb1, ^bb2 loc(#loc2)
  ^bb1:  // pred: ^bb0
    tt.return %x, %x : i32, i32 loc(#loc2)
  ^bb2:  // pred: ^bb0
    %y = arith.addi %x, %x : i32 loc(#loc2)
    tt.return %y, %x : i32, i32 loc(#loc2)"""
    call, last, _ = parse(TEXT.replace("BODY\n    tt.return loc(#loc2)", f"""
    %r:2 = tt.call @"half of"(%n) : (i32) -> (i32, i32) loc(#loc2)
    %s = arith.addi %r#0, %r#1 : i32{function}""")).body.operations
    [body] = call.regions
    branch, end = body.operations
    assert call.operands == [1] and last.operands == call.results and end.operands == branch.results
    assert [region.operations[-1].name for region in branch.regions] == ["tt.return", "tt.return"]


@pytest.mark.parametrize(
    ("location", "line"), [("#loc2", 9), ("#loc4", 9), ("#loc5", 9), ("#loc6", 5), ('"/home/author/kernels.py":4:0', 4)]
)
def test_the_line_is_that_of_the_author(location, line):
    kernel = parsed(f"%y = arith.addi %n, %n : i32 loc({location})")
    assert kernel.body.operations[0].line == Line("/home/author/kernels.py", line) == kernel.line


def test_equal_lines_are_one_object():
    first, second = operations(*[f"%{name} = arith.addi %n, %n : i32 loc({at})" for name, at in (("y", "#loc2"), ("z", "#loc4"))])
    assert first.line is second.line


@pytest.mark.parametrize(
    "row",
    ["%y = arith.addi %m, %n : i32 loc(#loc2)", "%y = arith.addi %n loc(#loc99)", "cf.br ^bb7 loc(#loc2)", "scf.for %i in %n {", "%y ="],
)
def test_a_form_that_is_not_known_is_an_error(row):
    with pytest.raises(cubeyard.CubeyardError, match=r"IR of triton 3\..*unknown form"):
        parsed(row)
