"""Numbers among words that stand without blanks: Japanese, Chinese, Korean and Thai."""

from __future__ import annotations

from pathlib import Path

import pytest

from shepherd.memory import Memory, Turn
from shepherd.secret_detection.unexplained import covered, find_unexplained

# Of a diary, of a form, of a chat: nothing here opens anything.
PLAIN = """\
毎朝6時に起きて、犬の散歩に行きます。
息子は5歳で、娘は8歳です。
2015年に東京へ引っ越しました。
家賃は月85,000円です。
家賃は85000円です。
私の誕生日は1990年3月14日です。
体重は62キロ、身長は175センチです。
来週の火曜は3時15分に歯医者。
電話番号は090-1234-5678です。
会員番号は 88123 です。
302号室に住んでいます。
我每天早上6点起床去公园跑步5公里。
我有2个孩子。一个12岁。一个9岁。
我2018年搬到上海。
房租是每月4500元。
저는 2015년에 서울로 이사했어요.
제 딸은 2018년생입니다.
월세는 500000원이에요.
ผมอายุ 34 ปี และมีลูก 2 คน
ผมย้ายมาอยู่เชียงใหม่ปี 2015
ค่าเช่า 8500 บาท"""

CODES = [
    ("暗証番号は4711です。", "4711"),
    ("玄関の鍵のコードは 8842 です", "8842"),
    ("Wi-Fiのパスワードはsakura2024です", "sakura2024"),
    ("金庫は12回して、あとは884213円みたいに覚える", "884213"),
    ("もし鳴ったら6604を押して", "6604"),
    ("我的银行密码是884213", "884213"),
    ("현관 비밀번호는 7731이에요", "7731"),
    ("รหัสผ่านคือ somchai99", "somchai99"),
    ("ตู้เซฟ 99812", "99812"),
]


@pytest.mark.parametrize("text", PLAIN.splitlines())
def test_a_number_that_says_what_it_counts_stays(text: str) -> None:
    assert covered(text, text) == (text, text)


@pytest.mark.parametrize(("text", "code"), CODES)
def test_a_code_alone_is_covered_and_not_the_sentence(text: str, code: str) -> None:
    question, answer = covered(text, f"了解、{code}です")

    assert code not in question + answer
    assert question == text.replace(code, "•" * max(4, len(code)))
    assert answer.startswith("了解、")


def test_a_whole_sentence_can_be_found_again(tmp_path: Path) -> None:
    text = "毎朝6時に起きて、犬の散歩に行きます。"

    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        memory.archive_turn(Turn(text, "", None, "s"))

        assert [found.question for found in memory.search("犬の散歩")] == [text]


def test_other_scripts_beside_a_code_change_nothing() -> None:
    for text, code in (("my PIN 暗証 is 4711", "4711"), ("If 警報 beeps, 6604 and then unset", "6604")):
        assert [text[one.start : one.end] for one in find_unexplained(text)] == [code]
