"""checks.links: what leads nowhere is named, and nothing else."""

from __future__ import annotations

import pytest

from checks.links import broken, main

PAGE = '<html><body><h1 id="top-part">x</h1><a name="old"></a>{}</body></html>'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a picture.png").write_bytes(b"")
    (tmp_path / "sub" / "index.html").write_text(PAGE.format('<a href="../index.html#top-part">up</a>'))

    def write(body):
        (tmp_path / "index.html").write_text(PAGE.format(body))
        return tmp_path

    return write


def test_whole_sites_have_nothing_broken(site):
    links = '<a href="#old"></a><a href="sub/#top-part"></a><img src="a%20picture.png?v=1" srcset="a%20picture.png 2x">'
    links += '<a href="https://example.org/x#y"></a><a href="mailto:a@b"></a><img src="data:image/png;base64,">'
    assert broken(site(links)) == ([], 5, 3)


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ('<a href="none.html">', "no such file"),
        ('<img src="none.png">', "no such file"),
        ('<img srcset="a%20picture.png 1x, none.png 2x">', "no such file"),
        ('<a href="#none">', "nothing on that page has this id"),
        ('<a href="sub/index.html#none">', "nothing on that page has this id"),
        ('<a href="../beside.html">', "outside the site"),
    ],
)
def test_a_broken_link_is_named(site, link, why, capsys):
    folder = site(link)
    found, _, _ = broken(folder)
    assert len(found) == 1
    assert found[0].startswith("index.html: ")
    assert found[0].endswith(f"({why})")
    assert main(str(folder)) == 1
    assert found[0] in capsys.readouterr().out


def test_a_folder_without_pages_is_an_error(tmp_path, capsys):
    assert main(str(tmp_path)) == 2
    assert "make docs" in capsys.readouterr().out
