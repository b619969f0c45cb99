#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn read_whole(bytes: impl Into<Vec<u8>>, content_type: Option<&str>) -> Document {
    read(bytes.into(), content_type, false)
}

fn gbk(text: &str) -> Vec<u8> {
    encoding_rs::GBK.encode(text).0.into_owned()
}

#[test]
fn the_encoding_comes_from_mark_header_page_and_bytes() {
    let cases: [(Vec<u8>, Option<&str>, &str, &str); 8] = [
        (gbk("价格 399元"), Some("text/html; charset=GBK"), "价格 399元", "gbk"),
        (gbk("<meta charset='gb2312'>价格"), Some("text/html"), "<meta charset='gb2312'>价格", "gbk"),
        (
            encoding_rs::WINDOWS_1251
                .encode("<?xml version=\"1.0\" encoding=\"windows-1251\"?><a>Цена</a>")
                .0
                .into_owned(),
            Some("application/xml"),
            "<?xml version=\"1.0\" encoding=\"windows-1251\"?><a>Цена</a>",
            "windows-1251",
        ),
        ("\u{feff}Prix 9 €".into(), Some("text/plain; charset=latin1"), "Prix 9 €", "utf-8"),
        (vec![0xff, 0xfe, b'A', 0, 0x2d, 0x4e], None, "A中", "utf-16le"),
        ("ohne Angabe: ü".into(), None, "ohne Angabe: ü", "utf-8"),
        (
            b"<meta http-equiv=Content-Type content=\"text/html; charset=utf-16\">x".to_vec(),
            Some("text/html"),
            "<meta http-equiv=Content-Type content=\"text/html; charset=utf-16\">x",
            "utf-8",
        ),
        (b"caf\xe9".to_vec(), Some("text/plain; charset=\"iso-8859-1\""), "café", "windows-1252"),
    ];
    for (bytes, content_type, text, charset) in cases {
        let body = read_whole(bytes, content_type);
        assert_eq!((body.text.as_str(), body.charset.as_deref()), (text, Some(charset)));
        assert!(!body.binary && body.raw.is_none() && body.marks.is_empty(), "{:?}", body.marks);
    }
}

#[test]
fn a_page_that_names_no_encoding_is_read_by_its_bytes() {
    let body = read_whole(gbk("<p>今天的价格是三百九十九元，欢迎选购我们的商品。</p>"), Some("text/html"));
    assert!(body.text.contains("三百九十九元"), "{}", body.text);
    assert!(body.marks[0].contains("names no encoding"));
}

#[test]
fn what_is_not_exact_keeps_its_bytes() {
    let nul = read_whole("a\0b and \\u0000", Some("text/plain"));
    assert_eq!(nul.text, "a\u{2400}b and \\u0000");
    assert_eq!(nul.marks, ["1 NUL characters replaced by \u{2400}"]);
    assert_eq!(&*nul.raw.unwrap().bytes, b"a\0b and \\u0000");

    let broken = read_whole(b"a line of text with one bad byte \xf0.".to_vec(), Some("text/plain; charset=utf-8"));
    assert!(!broken.binary && broken.text.contains('\u{fffd}'));
    assert!(broken.raw.is_some() && broken.marks[0].contains("no utf-8"));
}

#[test]
fn bytes_that_are_no_text_are_said_to_be_so() {
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(1 << 17)
    .collect();
    for content_type in
        [None, Some("text/html"), Some("text/html; charset=utf-8"), Some("application/octet-stream"), Some("image/png")]
    {
        let body = read_whole(noise.clone(), content_type);
        assert!(body.binary, "{content_type:?}");
        assert!(body.text.starts_with("[131072 bytes that are no text"));
        assert_eq!(&*body.raw.unwrap().bytes, &noise[..]);
    }
    assert!(!read_whole("plain words", Some("application/octet-stream")).binary);
    assert!(!read_whole("{\"a\":1}", None).binary);
    assert!(!read_whole("", Some("text/html")).binary);
    assert!(!read_whole("\u{1b}[31mred\u{1b}[0m", Some("text/plain")).binary);
}

#[test]
fn half_a_character_at_a_cut_is_left_out() {
    let text = "价".as_bytes();
    let body = read(text[..2].to_vec(), Some("text/plain; charset=utf-8"), true);
    assert_eq!((body.text.as_str(), body.raw.is_none()), ("", true));
    let body = read("ab价".as_bytes()[..4].to_vec(), None, true);
    assert_eq!(body.text, "ab");
}
